"""`embermq config`: files that are good, files that are not, and files to begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embermq.cli.main import main


def test_check_says_good_or_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "embermq.toml"
    file.write_text("heartbeat = 5\n")
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: good\n"
    file.write_text("\nheartbeet = 5\n")
    assert main(["config", "check", str(file)]) == 2
    assert f"{file}:2: unknown setting 'heartbeet'" in capsys.readouterr().err
    monkeypatch.setenv("EMBERMQ_CONFIG", str(file))
    assert main(["config", "show"]) == 2


def test_check_reads_the_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "embermq.toml"
    file.write_text('[tls]\ncertificate = "/no/such/file.pem"\n')
    assert main(["config", "check", str(file)]) == 2
    assert "TLS cannot be set up with /no/such/file.pem: " in capsys.readouterr().err


def test_show_counts_the_environment_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBERMQ_HEARTBEAT", "7")
    monkeypatch.setenv("EMBERMQ_TLS_KEY_PASSWORD", "swordfish")
    assert main(["config", "show"]) == 0
    printed = capsys.readouterr().out
    assert "\nheartbeat = 7\n" in printed and "\n# frame_max = " in printed
    assert "swordfish" not in printed


def test_show_for_programs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_HEARTBEAT", "7")
    monkeypatch.setenv("EMBERMQ_TLS_KEY_PASSWORD", "swordfish")
    assert main(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["heartbeat"], shown["amqp_port"]) == (7, 5672)
    assert set(shown["tls"]["key_password"]) == {"*"} and shown["users"] == [] and shown["templates"] == {}


def test_the_example_is_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["config", "example"]) == 0
    file = tmp_path / "embermq.toml"
    file.write_text(capsys.readouterr().out)
    assert main(["config", "check", str(file)]) == 0
