"""What streams need of a log: several readers, look-up by time, retention."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.log.retention import BlockReader, retain, sequence_at_time


class CountingFileSystem(FileSystem):
    def __init__(self) -> None:
        self.reads = 0

    def read_at(self, file: File, size: int, position: int) -> bytes:
        self.reads += 1
        return super().read_at(file, size, position)


def stream(tmp_path: Path, count: int, size: int = 100, segment_bytes: int = 200_000) -> Log:
    log = Log.open(str(tmp_path / "log"), Disk(CountingFileSystem(), str(tmp_path / "trash")), segment_bytes)
    for sequence in range(count):
        log.append(sequence, 1000 + sequence * 10, PERSISTENT, (b"%d|" % sequence, b"x" * size))
    log.write()
    return log


def test_paging_reads_large_blocks(tmp_path: Path) -> None:
    log = stream(tmp_path, 10_000)
    sequence = 0
    while records := log.read(sequence, 65536):
        sequence = records[-1].sequence + 1
    assert sequence == 10_000
    filesystem = log.disk.filesystem
    assert isinstance(filesystem, CountingFileSystem)
    assert filesystem.reads < 10_000 * 130 / 65536 * 2


def test_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    log = stream(tmp_path, 3000)
    places = {log.new_reader(): start for start in (0, 700, 1500, 2999)}
    chance = random.Random(1)
    while places:
        reader = chance.choice(list(places))
        records = reader.read(places[reader], 5000)
        expected = range(places[reader], places[reader] + len(records))
        assert [record.sequence for record in records] == list(expected)
        assert all(record.payload.startswith(b"%d|" % record.sequence) for record in records)
        places[reader] += len(records)
        if not records:
            assert places.pop(reader) == 3000


def test_a_reader_at_the_end_sees_what_comes(tmp_path: Path) -> None:
    log = stream(tmp_path, 10)
    reader = log.new_reader()
    assert len(reader.read(0, 100_000)) == 10
    assert reader.read(10, 100_000) == []
    log.append(10, 0, PERSISTENT, (b"unwritten",))
    assert [record.payload for record in reader.read(10, 100_000)] == [b"unwritten"]
    log.append(11, 0, PERSISTENT, (b"more",))
    log.write()
    log.append(12, 0, PERSISTENT, (b"even more",))
    assert [record.sequence for record in reader.read(11, 100_000)] == [11]
    assert [record.sequence for record in reader.read(12, 100_000)] == [12]


@pytest.mark.parametrize("reopen", [False, True])
def test_finding_a_time(tmp_path: Path, reopen: bool) -> None:
    log = stream(tmp_path, 5000)
    if reopen:
        log = Log.open(log.directory, log.disk)
    assert sequence_at_time(log, 0) == 0
    assert sequence_at_time(log, 1000) == 0
    for sequence in (1, 499, 500, 1600, 4999):
        assert sequence_at_time(log, 1000 + sequence * 10) == sequence
        assert sequence_at_time(log, 1000 + sequence * 10 - 9) == sequence
    assert sequence_at_time(log, 1000 + 5000 * 10) == 5000


def test_finding_a_time_although_the_clock_went_back(tmp_path: Path) -> None:
    log = Log.open(str(tmp_path / "log"), Disk(FileSystem(), str(tmp_path / "trash")), 100_000)
    chance = random.Random(2)
    times = [chance.randint(0, 1000) + sequence // 3 for sequence in range(3000)]
    for sequence, timestamp_ms in enumerate(times):
        log.append(sequence, timestamp_ms, PERSISTENT, (b"x" * 200,))
    log.write()
    for wanted in range(0, 2100, 50):
        expected = next((at for at, time in enumerate(times) if time >= wanted), 3000)
        assert sequence_at_time(log, wanted) == expected


def test_retention_by_bytes(tmp_path: Path) -> None:
    log = stream(tmp_path, 10_000)
    before = len(log.segments)
    assert retain(log, 0, bytes_max=10_000_000) == []
    gone = sum(segment.count for segment in retain(log, 0, bytes_max=500_000))
    assert 0 < len(log.segments) < before
    assert log.bytes_on_disk <= 500_000
    assert log.first_sequence == gone == 10_000 - log.count
    assert log.read(0)[0].sequence == gone
    log.disk.wait_deleted()
    again = Log.open(log.directory, log.disk)
    assert (again.first_sequence, again.count) == (log.first_sequence, log.count)


def test_retention_by_age_and_count(tmp_path: Path) -> None:
    log = stream(tmp_path, 10_000)
    now_ms = 1000 + 10_000 * 10
    retain(log, now_ms, age_ms_max=50_000)
    assert 3000 < log.first_sequence <= 5000
    retain(log, now_ms, count_max=2000)
    assert log.count >= 2000
    assert log.count - log.segments[0].live.count < 2000


def test_acks_of_what_retention_took_are_not_written(tmp_path: Path) -> None:
    log = stream(tmp_path, 3000)
    assert log.ack(5)
    retain(log, 0, bytes_max=0)
    log.disk.wait_deleted()
    log.write()
    assert len(list((tmp_path / "log").iterdir())) == 1


def test_the_last_segment_always_stays(tmp_path: Path) -> None:
    log = stream(tmp_path, 3000)
    retain(log, 1 << 50, bytes_max=0, age_ms_max=1, count_max=0)
    assert len(log.segments) == 1
    log.disk.wait_deleted()
    assert Log.open(log.directory, log.disk).next_sequence == 3000


def test_damage_in_a_segment_that_retention_has_taken_is_nobodys(tmp_path: Path) -> None:
    """A reader has a block in memory, meets damage in it, and its file is gone meanwhile."""
    log = stream(tmp_path, 5000, segment_bytes=100_000)
    reader = BlockReader(log)
    found = reader.block(10, 4096, None)
    assert found is not None
    block = found[0]
    retain(log, 0, bytes_max=log.bytes_on_disk - 1)
    log.disk.wait_deleted()
    assert block.segment.removed and not (tmp_path / "log" / block.segment.name).exists()
    count = log.count
    reader.went_on(block.position, 11)
    reader.damaged(block.position)
    assert log.count == count and not log.recovery.damages
    following = reader.block(11, 4096, None)
    assert following is not None and following[0].segment is log.segments[0]
