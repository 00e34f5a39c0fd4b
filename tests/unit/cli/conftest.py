"""The command line before a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embermq.cli.main import main
from embermq.testing import EmbeddedBroker
from tests.unit.cli.cli_command import Command


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
