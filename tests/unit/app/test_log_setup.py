"""Log files that are moved away, cannot be opened or written: the broker goes on, and says so."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.app import log_setup as logs
from embermq.app.log_setup import LogFile, Logs
from embermq.config import Config, ConfigError
from embermq.config.settings import Log


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LogFile]:
    made = LogFile(str(tmp_path / "log"))
    yield made
    made.close()


def say(handler: LogFile, text: str) -> None:
    handler.handle(logging.LogRecord("embermq", logging.INFO, "", 0, text, (), None))


def test_a_file_that_was_moved_away_is_opened_anew(opened: LogFile, tmp_path: Path) -> None:
    say(opened, "one")
    (tmp_path / "log").rename(tmp_path / "log.1")
    say(opened, "two")
    say(opened, "three")
    assert (tmp_path / "log.1").read_text() == "one\n"
    assert (tmp_path / "log").read_text() == "two\nthree\n"


def test_while_there_can_be_no_new_file_the_old_one_is_used(
    opened: LogFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(opened, "one")
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").mkdir()
    for text in ("two", "three"):
        say(opened, text)
    assert (tmp_path / "log.1").read_text() == "one\ntwo\nthree\n"
    (complaint,) = capsys.readouterr().err.splitlines()
    assert complaint.startswith(f"embermq: log file {tmp_path}/log: cannot be opened anew")
    assert complaint.endswith("Is a directory")
    (tmp_path / "log").rmdir()
    say(opened, "four")
    assert (tmp_path / "log").read_text() == "four\n"


def test_a_directory_that_goes_away_takes_no_broker_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    handler = LogFile(str(tmp_path / "logs" / "log"))
    (tmp_path / "logs").rename(tmp_path / "elsewhere")
    say(handler, "one")
    handler.close()
    assert (tmp_path / "elsewhere" / "log").read_text() == "one\n"
    assert "No such file or directory" in capsys.readouterr().err


def test_a_full_disk_loses_lines_and_says_so_seldom(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = LogFile("/dev/full")
    for _ in range(1000):
        say(handler, "one")
    (complaint,) = capsys.readouterr().err.splitlines()
    assert complaint == "embermq: log file /dev/full: No space left on device; lines lost so far: 1"
    monkeypatch.setattr(logs, "COMPLAIN_EVERY_S", 0)
    say(handler, "one")
    assert "lines lost so far: 1001" in capsys.readouterr().err
    handler.close()


def test_a_line_that_was_cut_does_not_run_into_the_next(tmp_path: Path) -> None:
    """A pipe that is full takes a part of a line, as a full disk does."""
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    handler = LogFile(str(tmp_path / "log"))
    try:
        for _ in range(3):
            say(handler, "x" * 50_000)
        assert handler.lost_count > 0 and handler.torn
        while True:
            try:
                os.read(reader, 1 << 20)
            except BlockingIOError:
                break
        say(handler, "whole")
        assert os.read(reader, 1 << 20) == b"\nwhole\n"
    finally:
        handler.close()
        os.close(reader)


def test_a_fifo_without_a_reader_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(ConfigError, match=r"log\.file is '.*/log', which cannot be opened: No such device"):
        Logs(Config(log=Log(file=str(tmp_path / "log"))))


def test_standard_error_that_is_closed_is_no_reason_to_stop_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = LogFile("/dev/full")
    with (tmp_path / "stderr").open("w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
    say(handler, "one")
    handler.close()
    assert handler.lost_count == 1
