"""Full segments of a stream: nothing of their length is in memory, and a start does not read them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.log.retention import retain, sequence_at_time
from embermq.store.log.segment_index import HEADER_SIZE

COUNT, SEGMENT_BYTES = 6000, 200_000


class CountingFileSystem(FileSystem):
    bytes_read = 0

    def read_at(self, file: File, size: int, position: int) -> bytes:
        data = super().read_at(file, size, position)
        self.bytes_read += len(data)
        return data


def opened(directory: Path, filesystem: FileSystem | None = None) -> Log:
    disk = Disk(filesystem or FileSystem(), str(directory / "trash"))
    return Log.open(str(directory / "log"), disk, SEGMENT_BYTES, indexed=True)


def written(directory: Path) -> Log:
    log = opened(directory)
    for sequence in range(COUNT):
        log.append(sequence, 1000 + sequence * 10, PERSISTENT, (b"%d|" % sequence, b"x" * 100))
    log.write()
    log.write_indexes(log.next_sequence)
    return log


def sequences(log: Log) -> list[int]:
    reader, found = log.new_reader(), [0][:0]
    while records := reader.read(found[-1] + 1 if found else 0, 65536):
        assert all(record.payload.startswith(b"%d|" % record.sequence) for record in records)
        found += [record.sequence for record in records]
    return found


def indexes(directory: Path) -> list[Path]:
    return sorted((directory / "log").glob("*.index"))


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "log").glob("*.segment"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_start_reads_the_last_segment_and_a_few_bytes_of_the_others(tmp_path: Path) -> None:
    before = written(tmp_path)
    filesystem = CountingFileSystem()
    log = opened(tmp_path, filesystem)
    full = len(log.segments) - 1
    assert full >= 3
    assert filesystem.bytes_read == log.segments[-1].size + full * HEADER_SIZE
    assert (log.count, log.next_sequence, log.bytes_on_disk) == (COUNT, COUNT, before.bytes_on_disk)
    assert log.recovery.live_bytes == sum(len(b"%d|" % number) + 100 for number in range(COUNT))
    assert sequences(log) == list(range(COUNT))


def test_a_full_segment_keeps_nothing_per_record_or_byte_in_memory(tmp_path: Path) -> None:
    for log in (written(tmp_path), opened(tmp_path)):
        for segment in log.segments[:-1]:
            assert segment.indexed
            assert (len(segment.live.bits), len(segment.index_positions)) == (0, 0)
            assert segment.live.count == segment.count > 1000
        assert not log.segments[-1].indexed


def test_what_is_not_safe_gets_no_index(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for sequence in range(COUNT):
        log.append(sequence, 0, PERSISTENT, (b"%d|" % sequence, b"x" * 100))
    log.write()
    second = log.segments[1]
    log.write_indexes(second.last)
    assert [segment.indexed for segment in log.segments[:2]] == [True, False]
    log.write_indexes(log.next_sequence)
    assert all(segment.indexed for segment in log.segments[1:-1])


@pytest.mark.parametrize("lost_entries", [False, True])
def test_finding_offsets_and_times(tmp_path: Path, lost_entries: bool) -> None:
    written(tmp_path)
    log = opened(tmp_path)
    if lost_entries:  # slower, not wrong
        for path in indexes(tmp_path):
            flip(path, HEADER_SIZE + 3)
    chance = random.Random(3)
    for sequence in [0, COUNT - 1, *(chance.randrange(COUNT) for _ in range(100))]:
        assert log.new_reader().read(sequence, 1)[0].sequence == sequence
        assert sequence_at_time(log, 1000 + sequence * 10) == sequence
        assert sequence_at_time(log, 1000 + sequence * 10 - 9) == sequence


def test_a_look_up_reads_little(tmp_path: Path) -> None:
    written(tmp_path)
    filesystem = CountingFileSystem()
    log = opened(tmp_path, filesystem)
    middle = log.segments[1]
    filesystem.bytes_read = 0
    log.new_reader().read(middle.last - 1, 4096)
    assert filesystem.bytes_read < SEGMENT_BYTES / 2


def make_newer(index: Path) -> None:
    head = bytearray(index.read_bytes()[: HEADER_SIZE - 4])
    head[8] = 2
    index.write_bytes(head + crc32(head).to_bytes(4, "little") + index.read_bytes()[HEADER_SIZE:])


SPOILERS: dict[str, Callable[[Path, Path], object]] = {
    "missing": lambda index, segment: index.unlink(),
    "empty": lambda index, segment: index.write_bytes(b""),
    "torn": lambda index, segment: index.write_bytes(index.read_bytes()[: HEADER_SIZE - 1]),
    "zeros": lambda index, segment: index.write_bytes(bytes(index.stat().st_size)),
    "damaged count": lambda index, segment: flip(index, 36),
    "newer": lambda index, segment: make_newer(index),
    "another's": lambda index, segment: index.write_bytes(indexes(index.parents[1])[0].read_bytes()),
}


@pytest.mark.parametrize("spoil", list(SPOILERS.values()), ids=list(SPOILERS))
def test_an_index_that_does_not_check_out_is_replaced(
    tmp_path: Path, spoil: Callable[[Path, Path], object]
) -> None:
    written(tmp_path)
    sound = [path.read_bytes() for path in indexes(tmp_path)]
    spoil(indexes(tmp_path)[1], segments(tmp_path)[1])
    log = opened(tmp_path)
    assert [segment.indexed for segment in log.segments[:3]] == [True, False, True]
    assert (log.count, sequences(log)) == (COUNT, list(range(COUNT)))
    assert log.recovery.damages == []
    log.write_indexes(log.next_sequence, everywhere=True)
    assert [path.read_bytes() for path in indexes(tmp_path)] == sound


def test_a_segment_that_was_cut_is_noticed_at_the_start(tmp_path: Path) -> None:
    written(tmp_path)
    path = segments(tmp_path)[1]
    path.write_bytes(path.read_bytes()[:-50])
    log = opened(tmp_path)
    assert log.count == COUNT - 1
    assert [damage.path for damage in log.recovery.damages] == [str(path)]


def test_damage_is_found_by_who_reads_and_at_the_next_start(tmp_path: Path) -> None:
    written(tmp_path)
    path = segments(tmp_path)[1]
    flip(path, 5000)
    log = opened(tmp_path)
    assert (log.count, log.recovery.damages) == (COUNT, [])
    found = sequences(log)
    assert len(found) == log.count == COUNT - 1
    assert len(log.recovery.damages) == 1
    assert f"{path} is damaged, set aside as {path.name}.damaged-1" in str(log.recovery.damages[0])
    assert sequences(log) == found
    assert len(log.recovery.damages) == 1, "once is enough"
    log.write_indexes(log.next_sequence)
    again = opened(tmp_path)
    assert (again.count, sequences(again)) == (COUNT - 1, found)
    assert len(again.recovery.damages) == 1
    again.write_indexes(again.next_sequence, everywhere=True)
    assert opened(tmp_path).recovery.damages == []


def test_an_index_goes_with_its_segment(tmp_path: Path) -> None:
    log = written(tmp_path)
    retain(log, 0, bytes_max=SEGMENT_BYTES * 2)
    log.disk.wait_deleted()
    left = len(log.segments) - 1
    assert len(indexes(tmp_path)) == left
    segments(tmp_path)[0].unlink()
    opened(tmp_path)
    assert len(indexes(tmp_path)) == left - 1
