"""`embermq store` on the data of real brokers: sound, damaged, in use, and what is no data at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pika
import pytest

from embermq.cli.main import main
from tools.brokers import EmberBroker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; its exit code and what it printed."""

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def fill(broker: EmberBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for name in ("orders", "empty"):
        channel.queue_declare(name, durable=True)
    headers = {"retries": 3, "raw": b"\xff\x00".decode("latin-1"), "nested": {"a": [1, None, True]}}
    persistent = pika.BasicProperties(delivery_mode=2, headers=headers, message_id="m-1")
    channel.basic_publish("", "orders", "grün".encode(), persistent)
    channel.basic_publish("", "orders", b"\xff\xfe", pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("", "orders", b"urgent", pika.BasicProperties(delivery_mode=2, priority=9))
    channel.basic_publish("", "orders", b"transient", pika.BasicProperties(delivery_mode=1))
    channel.basic_publish("", "orders", b"x" * 1000, pika.BasicProperties(delivery_mode=2))
    connection.close()


@pytest.fixture(scope="module", params=["stopped", "killed"])
def left_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that is no more."""
    directory = tmp_path_factory.mktemp("store") / "data"
    broker = EmberBroker(directory).start()
    try:
        fill(broker)
        if request.param == "stopped":
            broker.stop()
    finally:
        broker.close()
    return directory


@pytest.fixture
def data(left_behind: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged at will."""
    copy = tmp_path / "data"
    subprocess.run(["cp", "-a", str(left_behind), str(copy)], check=True)
    return copy


def everything(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def segment_of(directory: Path, size_min: int) -> Path:
    (found,) = [path for path in directory.rglob("*.segment") if path.stat().st_size > size_min]
    return found


def test_a_sound_directory(run: Run, data: Path) -> None:
    before = everything(data)
    code, out, err = run("store", "check", data)
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0] == ["vhost", "queue", "segments", "messages", "bytes", "on", "disk", "damage"]
    assert lines[1] == ["/", "empty", "0", "0", "0", "0", "-"]
    assert lines[2][:4] == ["/", "orders", "2", "4"]
    assert out.splitlines()[-1] == "2 queues, 4 messages: sound"
    assert everything(data) == before, "looking must not change anything"


def test_messages_as_json_lines(run: Run, data: Path) -> None:
    before = everything(data)
    code, out, err = run("store", "dump", data, "--queue", "orders")
    assert (code, err) == (0, "")
    urgent, green, binary, large = (json.loads(line) for line in out.splitlines())
    assert (urgent["body"], urgent["properties"]) == ("urgent", {"delivery_mode": 2, "priority": 9})
    assert green["body"] == "grün"
    assert green["encoding"] == "utf-8"
    assert green["exchange"] == ""
    assert green["routing_key"] == "orders"
    assert green["persistent"] is True
    assert green["properties"]["message_id"] == "m-1"
    assert green["properties"]["headers"]["nested"] == {"a": [1, None, True]}
    assert green["time"].endswith("Z")
    assert (binary["body"], binary["encoding"]) == ("//4=", "base64")
    assert large["body"] == "x" * 1000
    assert green["sequence"] < binary["sequence"] < large["sequence"]
    assert everything(data) == before


def test_an_empty_queue_has_no_messages(run: Run, data: Path) -> None:
    assert run("store", "dump", data, "--queue", "empty") == (0, "", "")


def test_no_such_queue(run: Run, data: Path) -> None:
    code, out, err = run("store", "dump", data, "--queue", "nope", "--vhost", "other")
    assert (code, out) == (2, "")
    assert err == f"embermq: no queue 'nope' in vhost 'other' of {data}\n"


def test_damage_is_found_and_the_rest_still_readable(run: Run, data: Path) -> None:
    path = segment_of(data, 1000)
    content = bytearray(path.read_bytes())
    content[content.index("grün".encode())] ^= 0xFF
    path.write_bytes(content)
    code, out, _ = run("store", "check", data)
    assert code == 1
    assert f"{path} is damaged" in out
    assert out.splitlines()[2].endswith("1 file")
    assert out.splitlines()[-1] == "2 queues, 3 messages: DAMAGED in 1 place"
    code, out, _ = run("store", "dump", data, "--queue", "orders")
    assert code == 0
    assert [json.loads(line)["body"] for line in out.splitlines()] == ["urgent", "//4=", "x" * 1000]


def test_a_torn_tail_is_damage_where_no_write_was_cut_off(
    run: Run, data: Path, request: pytest.FixtureRequest
) -> None:
    path = segment_of(data, 1000)
    os.truncate(path, path.stat().st_size - 10)
    code, out, _ = run("store", "check", data)
    if request.node.callspec.params["left_behind"] == "killed":
        assert code == 0
        assert "the last write was cut off" in out
        assert out.splitlines()[-1] == "2 queues, 3 messages: sound"
    else:
        assert code == 1
        assert f"{path} is damaged" in out
        assert out.splitlines()[-1] == "2 queues, 3 messages: DAMAGED in 1 place"


def test_a_newer_segment_is_refused(run: Run, data: Path) -> None:
    path = segment_of(data, 1000)
    content = bytearray(path.read_bytes())
    content[8] = 200
    path.write_bytes(content)
    before = everything(data)
    code, out, _ = run("store", "check", data)
    # Without its checksum fixed the header is damaged rather than newer; either way it must not pass.
    assert code == 1
    assert "DAMAGED" in out
    assert everything(data) == before


def test_damaged_definitions_leave_the_messages_readable(run: Run, data: Path) -> None:
    for path in data.glob("definitions.sqlite*"):
        path.write_bytes(b"no database at all" * 100)
    code, out, _ = run("store", "check", data)
    assert code == 1
    assert "definitions.sqlite cannot be read: file is not a database" in out
    assert "4 messages: DAMAGED" in out
    queue_id = next(path.name for path in (data / "queues").iterdir() if "." not in path.name)
    assert queue_id in out
    code, out, err = run("store", "dump", data, "--queue", queue_id)
    assert (code, len(out.splitlines()), err) == (0, 4, "")
    code, out, err = run("store", "dump", data, "--queue", "orders")
    assert (code, out) == (2, "")
    assert "definitions.sqlite cannot be read" in err


@pytest.mark.parametrize("left", [None, b""])
def test_missing_definitions_are_damage(run: Run, data: Path, left: bytes | None) -> None:
    for path in data.glob("definitions.sqlite*"):
        path.unlink()
    if left is not None:
        (data / "definitions.sqlite").write_bytes(left)
    code, out, _ = run("store", "check", data)
    assert code == 1
    assert f"definitions.sqlite is {'missing' if left is None else 'empty'}" in out
    assert "0 queues, 4 messages: DAMAGED" in out


def test_what_is_no_data_directory(run: Run, tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        code, out, err = run("store", "check", directory)
        assert (code, out) == (2, "")
        assert "is not a data directory of EmberMQ" in err
    assert list(tmp_path.iterdir()) == []


def test_a_newer_data_directory(run: Run, data: Path) -> None:
    (data / "VERSION").write_text("embermq data 7\n")
    code, _, err = run("store", "check", data)
    assert code == 2
    assert "data version 7" in err


def test_wrong_usage(run: Run) -> None:
    for arguments in (["store"], ["store", "check"], ["store", "dump", "."], ["store", "mend", "."]):
        code, _, err = run(*arguments)
        assert code == 2
        assert "embermq store" in err


def test_a_broker_that_runs_is_left_alone(run: Run, tmp_path: Path) -> None:
    with EmberBroker(tmp_path / "data") as broker:
        for arguments in (["check"], ["dump", "--queue", "q"]):
            code, out, err = run("store", *arguments, broker.data_dir)
            assert (code, out) == (2, "")
            assert err == (
                f"embermq: {broker.data_dir} is in use by process {broker.pid}: stop that broker first\n"
            )
    assert run("store", "check", tmp_path / "data")[0] == 0


def test_help_says_what_there_is(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "store" in out
    code, out, _ = run("store", "check", "--help")
    assert code == 0
    assert "1 something is damaged" in out


def test_a_reader_that_has_seen_enough_is_no_error(data: Path) -> None:
    program = f"{sys.executable} -m embermq store dump {data} --queue orders"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} | true"], capture_output=True, text=True, env=buffered
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def oddly_named(tmp_path: Path) -> Path:
    """A queue whose name has letters that few terminals know, and what would move their cursor."""
    with (
        EmberBroker(tmp_path / "odd") as broker,
        closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection,
    ):
        connection.channel().queue_declare("naïve\x1b[2J☃", durable=True)
    return broker.data_dir


def test_names_do_nothing_to_a_terminal(run: Run, oddly_named: Path) -> None:
    code, out, _ = run("store", "check", oddly_named)
    assert code == 0
    assert "naïve\\x1b[2J☃" in out and "\x1b" not in out


def test_a_terminal_that_knows_few_letters_is_no_damage(oddly_named: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "embermq", "store", "check", str(oddly_named)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "na\\xefve\\x1b[2J\\u2603" in done.stdout


def test_nobody_need_listen(data: Path) -> None:
    program = f"{sys.executable} -m embermq store check {data}"
    done = subprocess.run(["bash", "-c", f"{program} >&-"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
