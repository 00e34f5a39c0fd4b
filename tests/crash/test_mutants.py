"""The crash tests can fail: brokers that are wrong in one place are told from the right one.

Only interpreted sources can be made wrong. Power cuts find each mutant within seconds, and so does every run
of the tests; kills take minutes, so that most of them are left to `make soak` (`--cycles`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from embermq.build import build_info
from embermq.store.data_directory import DataDirectory
from embermq.store.errors import NotADataDirectory
from tests.crash import mutants
from tests.crash.driver import History
from tests.crash.power_cuts import ElectricHistory
from tools.brokers import EmberBroker

CYCLES_MIN = 100
POWER_CUT_HISTORIES_MAX = 150
KILL_HISTORIES_MAX = 25
KILLED_QUICKLY = ("skips a write", "loses a copy")

pytestmark = pytest.mark.skipif(
    build_info().mode != "interpreted", reason="compiled functions cannot be replaced"
)


class Mutant(EmberBroker):
    def __init__(self, data_dir: Path, name: str) -> None:
        self.name = name
        repository = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH"), repository) if part)
        super().__init__(data_dir, env={"PYTHONPATH": path})

    def command(self) -> list[str]:
        command = super().command()
        return [sys.executable, mutants.__file__, self.name, *command[command.index("serve") :]]


@pytest.mark.parametrize("name", [*mutants.ELECTRIC, *mutants.PLAIN])
def test_power_cuts_find(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in mutants.PAGED:
        pytest.skip("needs a queue that pages, which power cuts do without")
    with mutants.mutated(name):
        for seed in range(1, POWER_CUT_HISTORIES_MAX + 1):
            monkeypatch.setattr(DataDirectory, "segment_bytes", [700, 5_000][seed % 2])
            directory = tmp_path / str(seed)
            directory.mkdir()
            history = ElectricHistory(directory, seed)
            try:
                history.run()
            except AssertionError:
                history.close()
                return
            except NotADataDirectory:  # it does not even start again, and has closed what it had opened
                return
            history.close()
    raise AssertionError(f"nothing is wrong with a broker that {name}")


@pytest.mark.parametrize("name", [*mutants.PLAIN, *mutants.KILLED])
def test_kills_find(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if name not in KILLED_QUICKLY and request.config.getoption("--cycles") < CYCLES_MIN:
        pytest.skip("`make soak` does this")
    for seed in range(1, KILL_HISTORIES_MAX + 1):
        history = History(tmp_path, seed, Mutant(tmp_path / f"data-{seed}", name))
        try:
            history.run()
        except AssertionError:
            return
        finally:
            history.close()
    raise AssertionError(f"nothing is wrong with a broker that {name}")
