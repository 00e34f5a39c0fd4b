"""What is done with before it was written: neither it nor its ack reaches the disk; all else is sound."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.ack_note import note
from embermq.store.log.log import DRAINED_PART, Log
from embermq.store.log.record import PERSISTENT, keep_alive
from embermq.store.log.segment import Segment
from embermq.store.log.segment_file import ACK_HEADER_SIZE, SEGMENT_HEADER_SIZE
from tests.support.faulty_disk import FaultyFileSystem
from tests.unit.store.log.test_log import contents, fill


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(FileSystem(), str(tmp_path / "trash"))


@pytest.fixture
def log(tmp_path: Path, disk: Disk) -> Log:
    return Log.open(str(tmp_path / "log"), disk)


def reopened(log: Log) -> Log:
    return Log.open(log.directory, log.disk, log.segment_bytes)


def bytes_in(log: Log, pattern: str) -> int:
    return sum(path.stat().st_size for path in Path(log.directory).glob(pattern))


def test_a_log_whose_records_are_all_done_with_has_no_file(log: Log) -> None:
    for _ in range(5):
        fill(log, 3)
        log.ack_many(range(log.next_sequence))
        log.write()
        assert (log.spared, log.wrote) == (True, False)
    assert not os.path.exists(log.directory)
    assert (log.count, log.bytes_on_disk, log.next_sequence) == (0, 0, 15)
    fill(log, 1)
    log.write()
    assert list(contents(reopened(log))) == [15]


def test_a_file_that_is_there_stays_as_it_is(log: Log) -> None:
    fill(log, 3)
    log.write()
    log.take_dirty()
    size = bytes_in(log, "*")
    fill(log, 3)
    log.ack_many([3, 4, 5])
    log.write()
    dirty = log.take_dirty()
    assert not (dirty.files or dirty.acks or dirty.directories)
    assert bytes_in(log, "*") == size
    assert list(contents(reopened(log))) == [0, 1, 2]


def test_the_others_are_written(log: Log) -> None:
    fill(log, 2)
    log.write()
    fill(log, 8)
    log.ack_many([0, 2, 3, 6, 9])
    log.write()
    assert bytes_in(log, "*.acks") == ACK_HEADER_SIZE + 16, "only that of the written one"
    assert list(contents(log)) == list(contents(reopened(log))) == [1, 4, 5, 7, 8]
    fill(log, 1)
    log.write()
    assert contents(log) == contents(reopened(log))
    assert log.bytes_on_disk == bytes_in(log, "*.segment")


def test_a_purge_buries_what_is_not_written(log: Log) -> None:
    fill(log, 4)
    assert log.purge_from(0) == 4
    fill(log, 1)
    log.write()
    assert list(contents(reopened(log))) == [4]
    fill(log, 4)
    assert log.purge_from(0) == 5
    log.write()
    log.disk.wait_deleted()
    assert os.listdir(log.directory) == []


def test_a_place_in_the_numbering_that_must_be_kept_is_kept(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk, keep_place=True)
    fill(log, 5)
    log.ack_many([2, 3, 4])
    log.write()
    assert not log.spared
    again = Log.open(str(tmp_path / "log"), disk, keep_place=True)
    assert (list(contents(again)), again.next_sequence) == ([0, 1], 5)


def test_a_note_about_it_is_about_nothing_later(log: Log) -> None:
    fill(log, 3)
    assert note(log, 2, 7)
    log.ack(2)
    log.write()
    again = reopened(log)
    assert again.next_sequence == 3, "the next record must not inherit the note"
    assert again.recovery.notes == {}


@pytest.mark.parametrize("space", range(0, 630, 23))
def test_a_record_that_is_written_in_part_stays(tmp_path: Path, space: int) -> None:
    filesystem = FaultyFileSystem(str(tmp_path))
    log = Log.open(str(tmp_path / "log"), Disk(filesystem, str(tmp_path / "trash")))
    fill(log, 1)
    log.write()
    filesystem.space_left = space
    fill(log, 5)
    with pytest.raises(OSError, match="No space left"):
        log.write()
    fill(log, 3)
    log.ack_many([1, 3, 5, 6, 8])
    expected = contents(log)
    assert list(expected) == [0, 2, 4, 7]
    filesystem.space_left = None
    log.write()
    assert contents(log) == contents(reopened(log)) == expected
    assert reopened(log).recovery.damages == []


def test_what_follows_on_a_full_disk_has_a_header_before_it(tmp_path: Path) -> None:
    """Of two files the disk refuses the first, and of the second all is done with before it was tried."""
    filesystem = FaultyFileSystem(str(tmp_path))
    disk = Disk(filesystem, str(tmp_path / "trash"))
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=1000)
    filesystem.space_left = 0
    fill(log, 1, size=1000)
    fill(log, 1)
    log.ack(1)
    with pytest.raises(OSError):
        log.write()
    fill(log, 1)
    filesystem.space_left = None
    log.write()
    assert list(contents(log)) == list(contents(reopened(log))) == [0, 2]
    assert reopened(log).recovery.damages == []
    assert log.bytes_on_disk == bytes_in(log, "*.segment")


def test_a_reader_that_had_read_it_finds_what_stands_in_its_place(log: Log) -> None:
    """Such as a queue that pages, whose reader is ahead of what is written."""
    for size in (100, 40, 260):
        fill(log, 3, size)
        first = log.next_sequence - 3
        assert [record.sequence for record in log.read(first)] == [first, first + 1, first + 2]
        log.ack_many(range(first, first + 3))
        log.write()
    fill(log, 2, 300)
    assert [record.sequence for record in log.read(log.next_sequence - 2)] == [9, 10]
    assert log.recovery.damages == []


def test_where_to_look_is_right_after_many_cuts(log: Log) -> None:
    """Records of 20 KiB, so that there is an index entry for every few of them."""
    chance = random.Random(1)
    for _ in range(30):
        fill(log, 6, 20_000)
        dead = [sequence for sequence in contents(log) if chance.random() < 0.6]
        log.ack_many(dead)
        log.write()
        for sequence in contents(log):
            assert log.new_reader().read(sequence, 1)[0].sequence == sequence
    assert contents(log) == contents(reopened(log))


def test_the_memory_for_what_was_never_written_is_bounded(log: Log) -> None:
    for _ in range(100):
        fill(log, 1000, 0)
        log.ack_many(range(log.next_sequence - 1000, log.next_sequence))
        log.write()
        assert sum(len(segment.live.bits) for segment in log.segments) <= 32 * 1024
    assert not os.path.exists(log.directory)


def test_a_drained_file_goes_even_if_little_was_written(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=4000)
    fill(log, 4000 // DRAINED_PART // 100)
    log.write()
    fill(log, 1)
    log.ack_many(range(log.next_sequence))
    log.write()
    disk.wait_deleted()
    assert os.listdir(tmp_path / "log") == []


@pytest.mark.parametrize("seed", range(5))
def test_keeping_the_living_together(seed: int) -> None:
    chance = random.Random(seed)
    segment, expected = Segment(1, 99), Segment(1, 99)
    for each in (segment, expected):
        each.borrow_buffer(bytearray(16))
        each.begin(1000)
    for sequence in range(1, chance.randint(2, 40)):
        parts = (bytes(chance.randint(0, 300)), b"%d" % sequence)
        alive = chance.random() < 0.5
        segment.append(sequence, 1000, PERSISTENT, parts)
        if alive:
            expected.append(sequence, 1000, PERSISTENT, parts)
        else:
            segment.live.remove(sequence)
    fill = keep_alive(segment.buffer, SEGMENT_HEADER_SIZE, segment.fill, segment.live)
    assert segment.buffer[:fill] == expected.unwritten()


def test_a_buffer_that_is_cut_off_is_not_read_beyond() -> None:
    segment = Segment(1, 99)
    segment.borrow_buffer(bytearray())
    segment.append(1, 1000, PERSISTENT, (b"a payload",))
    for end in (1, 24, 25, segment.fill - 1, len(segment.buffer) + 1):
        with pytest.raises(IndexError):
            keep_alive(segment.buffer[: min(end, segment.fill)], 0, end, segment.live)
