"""Files whose size runs ahead of their records: when they do, that it costs nothing, that it never shows."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.store.data_directory import DataDirectory
from embermq.store.disk.disk import ROOM_BYTES, Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.log.log import Log
from embermq.store.log.preallocation import (
    WRITE_BYTES_MAX,
    WRITES_BEFORE_ROOM,
    ZEROS_WRITE_BYTES_MIN,
)
from embermq.store.log.record import PERSISTENT
from embermq.store.recovery.check import check_log
from embermq.store.recovery.dump import dump_log
from tests.support.faulty_disk import FaultyFileSystem
from tests.unit.store.log.test_log import contents

Opened = Callable[..., Log]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Open the log as a new process would."""

    def open_log(filesystem: FileSystem | None = None, segment_bytes: int = 1 << 20, **options: bool) -> Log:
        disk = Disk(filesystem or FileSystem(), str(tmp_path / "trash"))
        return Log.open(str(tmp_path / "log"), disk, segment_bytes, **options)

    return open_log


def write(log: Log, count: int = WRITES_BEFORE_ROOM, body: bytes = b"a message") -> None:
    for _ in range(count):
        log.append(log.next_sequence, 1000, PERSISTENT, (body,))
        log.write()


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "log").glob("*.segment"))


def excess(log: Log, tmp_path: Path) -> int:
    """By how much the files are longer than what they hold."""
    return sum(path.stat().st_size for path in files(tmp_path)) - log.bytes_on_disk


def test_a_log_that_is_written_to_again_and_again_gets_room(opened: Opened, tmp_path: Path) -> None:
    log = opened()
    write(log, WRITES_BEFORE_ROOM - 1)
    assert excess(log, tmp_path) == 0
    write(log, 1)
    assert excess(log, tmp_path) == ROOM_BYTES
    write(log, 1)
    assert 0 < excess(log, tmp_path) < ROOM_BYTES
    (path,) = files(tmp_path)
    assert path.stat().st_blocks * 512 <= 8192, "room takes no space"
    write(log, 2, bytes(ROOM_BYTES // 4 - 100))
    write(log, 1, b"x" * WRITE_BYTES_MAX * 8)
    assert excess(log, tmp_path) == 0, "a large write goes beyond it"
    assert contents(opened()) == contents(log)


def test_larger_writes_get_room_that_takes_space(opened: Opened, tmp_path: Path) -> None:
    """Else most syncs would have to tell the file system of a new block."""
    log = opened()
    write(log, WRITES_BEFORE_ROOM, bytes(ZEROS_WRITE_BYTES_MIN))
    assert excess(log, tmp_path) == ROOM_BYTES
    (path,) = files(tmp_path)
    assert path.stat().st_blocks * 512 >= ROOM_BYTES
    assert path.read_bytes()[log.bytes_on_disk :] == bytes(ROOM_BYTES)
    assert contents(opened()) == contents(log)
    write(log, 200, bytes(ZEROS_WRITE_BYTES_MIN))
    assert contents(opened()) == contents(log)
    log.give_up_room()
    assert excess(log, tmp_path) == 0


@pytest.mark.parametrize("space_left", [*range(0, 3000, 300), ROOM_BYTES - 1])
def test_a_disk_without_space_for_room_is_left_as_it_was(
    opened: Opened, tmp_path: Path, space_left: int
) -> None:
    filesystem = FaultyFileSystem(str(tmp_path))
    log = opened(filesystem)
    body = bytes(ZEROS_WRITE_BYTES_MIN)
    write(log, WRITES_BEFORE_ROOM - 1, body)
    filesystem.space_left = space_left
    log.append(log.next_sequence, 1000, PERSISTENT, (body,))
    try:
        log.write()
    except OSError:
        filesystem.space_left = None
        log.write()
    filesystem.space_left = None
    assert excess(log, tmp_path) == 0
    write(log, 3, body)
    assert excess(log, tmp_path) == 0
    log.roll()
    write(log, 1, body)
    again = opened()
    assert contents(again) == contents(log)
    assert again.recovery.damages == []


def test_what_a_kill_leaves_is_cut_off_without_a_word(opened: Opened, tmp_path: Path) -> None:
    log = opened()
    write(log)
    log.ack(3)
    log.write()
    (path,) = files(tmp_path)
    report = check_log(FileSystem(), str(tmp_path / "log"), "log")
    assert (report.messages, report.torn_bytes, report.sound) == (WRITES_BEFORE_ROOM - 1, 0, True)
    acks = path.with_suffix(".acks").stat().st_size
    assert report.bytes_on_disk == log.bytes_on_disk + acks
    assert [record.sequence for record in dump_log(FileSystem(), str(tmp_path / "log"))] == list(
        contents(log)
    )
    again = opened()
    assert contents(again) == contents(log)
    assert (again.recovery.torn_bytes, again.recovery.damages) == (0, [])
    assert (excess(again, tmp_path), again.bytes_on_disk) == (0, log.bytes_on_disk)
    write(again)
    assert contents(opened()) == contents(again)


def test_a_full_segment_has_none(opened: Opened, tmp_path: Path) -> None:
    log = opened(segment_bytes=2000)
    write(log, 200)
    assert len(files(tmp_path)) > 3
    full = zip(files(tmp_path)[:-1], log.segments[:-1], strict=True)
    assert all(path.stat().st_size == segment.size for path, segment in full)
    log.append(log.next_sequence, 1000, PERSISTENT, (b"unwritten",))
    log.roll()
    log.write()
    assert excess(log, tmp_path) == 0


def test_a_segment_that_is_sealed_early_loses_it_with_the_next_write(opened: Opened, tmp_path: Path) -> None:
    log = opened(keep_place=True)
    write(log)
    log.roll()
    write(log, 1)
    first, second = files(tmp_path)
    assert [first.stat().st_size, second.stat().st_size] == [segment.size for segment in log.segments]
    log.write_indexes(log.next_sequence)
    again = opened(keep_place=True, indexed=True)
    assert [segment.indexed for segment in again.segments] == [True, False]
    assert again.recovery.damages == []


@pytest.mark.parametrize("way", ["roll", "trim"])
def test_a_segment_that_is_sealed_with_nothing_alive_but_must_stay_loses_it_too(
    opened: Opened, tmp_path: Path, way: str
) -> None:
    """A log that keeps its place: zeros at the end of a file that is not the last would look like damage."""
    log = opened(keep_place=True)
    write(log)
    log.ack_many(range(log.next_sequence))
    getattr(log, way)()
    log.write()
    assert excess(log, tmp_path) == 0
    write(log, 1)
    assert len(files(tmp_path)) == 2
    again = opened(keep_place=True)
    assert again.recovery.damages == []
    assert contents(again) == contents(log)


def test_a_quiet_log_gives_it_up(opened: Opened, tmp_path: Path) -> None:
    log = opened()
    write(log)
    log.give_up_room()
    assert excess(log, tmp_path) == 0
    write(log, 1)
    assert excess(log, tmp_path) == 0, "it must be busy again first"
    write(log)
    assert excess(log, tmp_path) > 0
    assert contents(opened()) == contents(log)


def test_what_is_not_written_yet_is_not_cut_off(opened: Opened, tmp_path: Path) -> None:
    log = opened()
    write(log)
    log.append(log.next_sequence, 1000, PERSISTENT, (b"in memory",))
    log.give_up_room()
    log.write()
    assert contents(opened()) == contents(log)


def test_a_file_system_that_cannot_stretch_files_grows_them(opened: Opened, tmp_path: Path) -> None:
    class Stiff(FileSystem):
        refused = 0

        def truncate(self, file: File, size: int) -> None:
            self.refused += 1
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), file.path)

    filesystem = Stiff()
    log = opened(filesystem)
    write(log, 5 * WRITES_BEFORE_ROOM)
    assert excess(log, tmp_path) == 0
    assert filesystem.refused == 1
    assert contents(opened()) == contents(log)


def test_a_full_disk_is_told_by_the_write_into_the_room(opened: Opened, tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(str(tmp_path))
    log = opened(filesystem)
    write(log)
    filesystem.space_left = 10
    with pytest.raises(OSError, match="No space left"):
        write(log, 1)
    filesystem.space_left = None
    log.write()
    assert contents(opened()) == contents(log)


def test_nobody_who_does_not_sync_needs_it(tmp_path: Path) -> None:
    data = DataDirectory.open(str(tmp_path), lambda *_: None, sync="os")
    log = data.open_log("log")
    write(log, 3 * WRITES_BEFORE_ROOM)
    (path,) = (tmp_path / "queues/log").glob("*.segment")
    assert path.stat().st_size == log.bytes_on_disk
    data.close()
