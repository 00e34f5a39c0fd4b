"""The command as people and scripts meet it: what it prints, where, and with which exit code."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embermq import __version__
from embermq.build import build_info
from embermq.cli.main import COMMANDS, main
from tools.ports import answers_handshake

SECONDS_MAX = 60
READY = re.compile(
    rf"EmberMQ {re.escape(__version__)} ready: amqp://127\.0\.0\.1:(\d+)( http://127\.0\.0\.1:\d+)?"
    r" \((compiled|interpreted)\)\n"
)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "embermq", *map(str, arguments)]


def serving(data: Path, port: int = 0) -> list[str]:
    return command("serve", "--amqp-port", str(port), "--http-port", "0", "--data-dir", data)


def run(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=SECONDS_MAX, env={**os.environ, **environment}
    )


@contextmanager
def started(arguments: list[str], **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A broker that has said that it is ready, and its port."""
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout is not None
            ready = READY.fullmatch(process.stdout.readline())
            assert ready is not None
            yield process, int(ready[1])
        finally:
            process.kill()


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["serve", "--help"], ["help"], ["help", "queue", "list"], ["--version"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
    said = capsys.readouterr()
    assert "serve" in said.out and "--data-dir" in said.out and "All queues with" in said.out
    assert f"EmberMQ {__version__} ({build_info().mode})\n" in said.out
    assert said.err == ""


@pytest.mark.parametrize("arguments", [["no-such"], ["serve", "--no-such"], ["serve", "--amqp-port"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("embermq") and len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["consume", "q", "--prefetch", "-1"], "--prefetch: '-1'; expected a number from 0 to 65535"),
        (["consume", "q", "--prefetch", "65536"], "expected a number from 0 to 65535"),
        (["consume", "q", "--count", "-1"], "expected a number from 0"),
        (["consume", "q", "--count", "1.5"], "expected a number from 0"),
        (["consume", "q", "--timeout", "nan"], "expected a number from 0"),
        (["publish", "q", "--priority", "256"], "expected a number from 0 to 255"),
        (["perf", "--seconds", "nan"], "expected a number from 0.1"),
        (["perf", "--publishers", "-1"], "expected a number from 0"),
        (["top", "--interval", "inf"], "expected a number from 0.1"),
        (["queue", "browse", "q", "--count", "many"], "expected a number from 0"),
        (["stream", "super-declare", "s", "--partitions", "0"], "expected a number from 1"),
        (["status", "--url", "http://[::"], "is no address of a broker"),
    ],
)
def test_numbers_and_addresses_that_cannot_be(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2
    assert why in capsys.readouterr().err


def test_no_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("usage: embermq")


def test_settings_that_cannot_be_are_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--heartbeat", "often"]) == 2
    assert capsys.readouterr().err == (
        "embermq: the command line: heartbeat is 'often'; expected a whole number\n"
    )
    assert main(["serve", "--config", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.endswith("missing: cannot be read: No such file or directory\n")


def test_the_environment_is_asked(tmp_path: Path) -> None:
    done = run(command("serve"), EMBERMQ_AMQP_PORT="70000")
    assert done.returncode == 2
    assert done.stderr == "embermq: the environment: amqp_port is 70000; expected 0 to 65535\n"
    file = tmp_path / "embermq.toml"
    file.write_text("no_such = 1")
    done = run(command("serve"), EMBERMQ_CONFIG=str(file))
    assert done.returncode == 2 and done.stderr.startswith(f"embermq: {file}:1: unknown setting 'no_such'")


@pytest.mark.parametrize("setting", ["LOG_FILE", "LOG_AUDIT_FILE"])
def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path, setting: str) -> None:
    for file in (tmp_path / "no" / "log", tmp_path):
        done = run(serving(tmp_path / "data", 0), **{f"EMBERMQ_{setting}": str(file)})
        assert done.returncode == 2 and done.stdout == ""
        name = setting.lower().replace("log_", "log.")
        assert done.stderr.startswith(f"embermq: {name} is '{file}', which cannot be opened: ")
        assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "data").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run(serving(tmp_path / "data", port))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("embermq: ")
    assert str(port) in done.stderr and "address already in use" in done.stderr
    assert "--amqp-port" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_nobody_knows_is_named(tmp_path: Path) -> None:
    done = run([*serving(tmp_path / "data"), "--bind", "no.such.host.invalid"])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("embermq: cannot listen on no.such.host.invalid:0: ")


@pytest.mark.parametrize(
    ("within", "why"), [("", "it is no directory"), ("/data", "not a directory")], ids=["file", "in a file"]
)
def test_a_data_directory_that_cannot_be_one(tmp_path: Path, within: str, why: str) -> None:
    (tmp_path / "file").write_text("something else")
    directory = f"{tmp_path / 'file'}{within}"
    done = run(serving(Path(directory)))
    assert done.returncode == 1
    assert done.stderr == f"embermq: {directory} cannot be the data directory: {why}\n"


def test_a_first_start_that_may_write_nothing_names_the_file(tmp_path: Path) -> None:
    words = " ".join(serving(tmp_path / "data"))
    done = run(["bash", "-c", f"ulimit -f 0; exec {words}"])
    assert done.returncode == 1
    assert done.stderr == f"embermq: {tmp_path}/data/VERSION.new: file too large\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_when_it_is_ready_and_stops_when_told(tmp_path: Path, number: signal.Signals) -> None:
    with started(serving(tmp_path / "data")) as (process, port):
        assert answers_handshake("127.0.0.1", port)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert out == "" and "Traceback" not in err


def test_one_broker_per_data_directory(tmp_path: Path) -> None:
    with started(serving(tmp_path / "data")) as (first, _):
        second = run(serving(tmp_path / "data"))
        assert second.returncode == 1 and second.stdout == ""
        assert second.stderr.splitlines()[-1].startswith("embermq: ")
        assert str(tmp_path / "data") in second.stderr and "Traceback" not in second.stderr
        first.send_signal(signal.SIGTERM)
        assert first.wait(SECONDS_MAX) == 0
    with started(serving(tmp_path / "data")):
        pass  # free again, even after the SIGKILL that ends this one


def test_a_data_directory_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("something else")
    full = tmp_path / "full"
    full.mkdir()
    (full / "holiday.jpg").write_text("")
    for place in (file, full):
        done = run(serving(place))
        assert done.returncode == 1, place
        assert done.stderr.splitlines()[-1].startswith("embermq: ") and "Traceback" not in done.stderr


def test_the_broker_does_not_carry_the_tools_of_its_operators() -> None:
    program = (
        "import sys; from embermq.cli.main import parser; parser('serve'); import embermq.app.serve; "
        "tools = ('rich', 'http.client', 'embermq.client', 'embermq.cli.command.queues'); "
        "print([name for name in tools if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_every_command_is_found_where_it_is_said_to_be() -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0


def test_signals_that_come_while_it_starts_are_not_lost(tmp_path: Path) -> None:
    """Both sent before the settings are read: SIGHUP used to kill it, and an import may swallow SIGINT."""
    program = (
        "import os, signal, sys\n"
        "from embermq.cli.command import serve as serving\n"
        "from embermq.cli.main import main\n"
        "load = serving.load_config\n"
        "def interrupted(options):\n"
        "    serving.load_config = load\n"
        "    for number in (signal.SIGHUP, *map(int, os.environ['ALSO'].split())):\n"
        "        os.kill(os.getpid(), number)\n"
        "    return load(options)\n"
        "serving.load_config = interrupted\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = [sys.executable, "-c", program, *serving(tmp_path / "data")[3:]]
    with started(arguments, ALSO="") as (process, _):
        assert process.stderr is not None
        while "settings read anew; changed: nothing" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        process.terminate()
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
    stopped = run(arguments, ALSO=str(int(signal.SIGINT)))
    assert stopped.returncode == 0 and "Traceback" not in stopped.stderr
    assert '"stopped before' in stopped.stderr
