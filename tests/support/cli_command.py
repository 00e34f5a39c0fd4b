"""The command line with a broker of its own: fixtures, and what a command that was run printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embermq.cli.main import main
from embermq.testing import EmbeddedBroker

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as made:
        yield made


@pytest.fixture
def run(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Runs a command: exit code, standard output, standard error. Each test has an empty virtual host."""
    with broker.vhost() as vhost:
        monkeypatch.setenv("EMBERMQ_URL", broker.http_url)
        monkeypatch.delenv("EMBERMQ_PASSWORD", raising=False)

        def run(*words: str) -> tuple[int, str, str]:
            try:
                code = main([word.replace("VHOST", vhost) for word in words])
            except SystemExit as usage:  # argparse's way
                code = int(str(usage.code))
            captured = capsys.readouterr()
            return code, captured.out, captured.err

        yield run


def good(found: tuple[int, str, str]) -> str:
    code, out, err = found
    assert code == 0, err
    return out


def rows(found: tuple[int, str, str]) -> Any:
    return json.loads(good(found))


def vhost_in(run: Command) -> str:
    (name,) = [row["name"] for row in rows(run("vhost", "list", "--json")) if row["name"] != "/"]
    return str(name)
