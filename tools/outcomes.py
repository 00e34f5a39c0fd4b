"""A pytest plugin that writes down which tests passed and which failed: `-p tools.outcomes --outcomes FILE`.

Under pytest-xdist the controller hears of every test, also of one during which a worker died, and is the one
that writes. The file exists only when the session came to its end.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest


@dataclass
class Outcomes:
    """Tests by the names that pytest takes as arguments, each list in the order in which it happened."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    not_collected: list[str] = field(default_factory=list)  # files that could not even be imported

    @classmethod
    def read(cls, path: Path) -> Outcomes:
        return cls(**json.loads(path.read_text()))


class Writer:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = Outcomes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcomes = self._outcomes
        if report.failed and report.nodeid not in outcomes.failed:
            outcomes.failed.append(report.nodeid)
        elif report.passed and report.when == "call":
            outcomes.passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._outcomes.not_collected:
            self._outcomes.not_collected.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        outcomes = self._outcomes
        # A test whose teardown failed has passed before it failed.
        outcomes.passed = [name for name in outcomes.passed if name not in outcomes.failed]
        self._path.write_text(json.dumps(asdict(outcomes), indent=1))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="write the names of passed and failed tests to this file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(path))
