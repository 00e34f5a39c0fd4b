"""Files with zeros behind their records, as a kill leaves them, on disks that lose or change some bytes.

Whatever happens within the room costs nothing. What happens to records costs these and no others, and is told
unless it looks like a write that was cut off. Opening, `check` and `dump` see the same.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.log.log import Log
from embermq.store.log.preallocation import WRITES_BEFORE_ROOM
from embermq.store.log.record import PERSISTENT, RECORD_HEADER_SIZE
from embermq.store.recovery.check import QueueReport, check_log
from embermq.store.recovery.dump import dump_log
from tests.unit.store.failing_disk.test_damaged_files import HastyFileSystem
from tests.unit.store.log.test_log import Entry, contents

PAGE = 512
COUNT = 24
LAST_FIRST = 12  # the first sequence of the last of two files


class Killed:
    """A log of two files, the last with room at its end, and a copy of it to be damaged."""

    def __init__(self, directory: Path, keep_place: bool) -> None:
        self.original, self.copy = directory / "log", directory / "copy"
        self.keep_place = keep_place
        log = self.open(self.original)
        chance = random.Random(1)
        for sequence in range(COUNT):
            if sequence == LAST_FIRST:
                log.roll()
            log.append(sequence, 1000 + sequence, PERSISTENT, (chance.randbytes(100 + 40 * sequence),))
            log.write()
        self.ends: list[int] = []  # where the records of the last file end
        last = log.segments[-1]
        self.path = self.copy / last.name
        self.size = last.size  # of its records
        self.expected = contents(log)
        position = last.size
        for sequence in range(COUNT - 1, LAST_FIRST - 1, -1):
            self.ends.insert(0, position)
            position -= RECORD_HEADER_SIZE + len(self.expected[sequence][2])
        self.begin = position
        assert last.writes >= WRITES_BEFORE_ROOM
        assert (self.original / last.name).stat().st_size > self.size + 20 * PAGE
        self.fresh()

    def open(self, directory: Path) -> Log:
        disk = Disk(HastyFileSystem(), f"{directory}.trash")
        return Log.open(str(directory), disk, keep_place=self.keep_place, indexed=self.keep_place)

    def fresh(self) -> bytearray:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.original, self.copy)
        return bytearray(self.path.read_bytes())

    def look(self, data: bytes | bytearray) -> tuple[dict[int, Entry], QueueReport]:
        """What is found when the last file is this: the same by all ways, and again the next time."""
        self.path.write_bytes(data)
        report = check_log(HastyFileSystem(), str(self.copy), "log")
        dumped = {
            record.sequence: (record.timestamp_ms, record.flags, record.payload)
            for record in dump_log(HastyFileSystem(), str(self.copy))
        }
        log = self.open(self.copy)
        found = contents(log)
        assert found == dumped
        assert report.messages == len(found)
        assert bool(report.damages) == bool(log.recovery.damages)
        assert report.torn_bytes == log.recovery.torn_bytes
        assert all(self.expected[sequence] == entry for sequence, entry in found.items()), "a wrong message"
        log.append(log.next_sequence, 5000, PERSISTENT, (b"behind it",))
        log.write()
        again = self.open(self.copy)
        assert contents(again) == contents(log)
        assert again.recovery.damages == [] and again.recovery.torn_bytes == 0
        return found, report

    def survivors(self, begin: int, end: int) -> dict[int, Entry]:
        """Those of whose bytes none is in [begin, end) of the last file."""
        left, start = {}, self.begin
        for sequence, entry in self.expected.items():
            if sequence >= LAST_FIRST:
                stop = self.ends[sequence - LAST_FIRST]
                if start < end and begin < stop:
                    start = stop
                    continue
                start = stop
            left[sequence] = entry
        return left


@pytest.fixture(params=[False, True], ids=["queue", "stream"])
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Killed:
    return Killed(tmp_path, request.param)


def test_bytes_that_change_within_the_room_cost_nothing(killed: Killed) -> None:
    chance = random.Random(2)
    length = len(killed.fresh())
    for position in [
        killed.size,
        killed.size + 1,
        length - 1,
        *(chance.randrange(killed.size, length) for _ in range(20)),
    ]:
        data = killed.fresh()
        data[position] ^= chance.randint(1, 255)
        found, report = killed.look(data)
        assert found == killed.expected
        assert report.damages == []
        assert report.torn_bytes == position + 1 - killed.size


def test_a_file_that_ends_within_the_room(killed: Killed) -> None:
    for length in (killed.size, killed.size + 1, killed.size + 3 * PAGE):
        found, report = killed.look(killed.fresh()[:length])
        assert found == killed.expected
        assert (report.damages, report.torn_bytes) == ([], 0)


def test_a_page_of_zeros_among_the_records_costs_those_on_it(killed: Killed) -> None:
    for begin in range(0, killed.size, PAGE):
        data = killed.fresh()
        data[begin : begin + PAGE] = bytes(PAGE)
        found, report = killed.look(data)
        left = killed.survivors(begin, begin + PAGE)
        assert found == left
        if max(left) == COUNT - 1 or begin == 0:
            assert len(report.damages) == 1, "something was lost in the middle, and that is told"


def test_zeros_at_the_end_of_a_file_that_is_not_the_last_are_damage(killed: Killed) -> None:
    killed.fresh()
    first = min(killed.copy.glob("*.segment"))
    first.write_bytes(first.read_bytes() + bytes(PAGE))
    found, report = killed.look(killed.path.read_bytes())
    assert found == killed.expected
    assert len(report.damages) == 1
