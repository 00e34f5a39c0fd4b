"""A disk that cannot give back every block: what it hit is lost and told, the rest is served."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.recovery.check import check_log
from embermq.store.recovery.dump import dump_log
from embermq.store.recovery.salvage import BLOCK_BYTES
from tests.unit.store.log.test_log import contents

COUNT = 30
BODY = bytes(range(1, 251)) * 4  # of 1000 bytes, so that a block holds about four
PER_SEGMENT = 10


class BadSectors(FileSystem):
    """`bad` blocks of files whose names end so cannot be read."""

    def __init__(self) -> None:
        self.bad: dict[str, set[int]] = {}

    def read_at(self, file: File, size: int, position: int) -> bytes:
        for block in self.bad.get(os.path.basename(file.path), ()):
            if position < (block + 1) * BLOCK_BYTES and block * BLOCK_BYTES < position + size:
                raise OSError(errno.EIO, os.strerror(errno.EIO), file.path)
        return super().read_at(file, size, position)


@pytest.fixture
def disk() -> BadSectors:
    return BadSectors()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three segments, the first two with acks."""
    log = opened(tmp_path / "log", FileSystem())
    for sequence in range(COUNT):
        if sequence % PER_SEGMENT == 0:
            log.roll()
        log.append(sequence, 0, PERSISTENT, (BODY,))
    log.write()
    for sequence in (1, 11):
        log.ack(sequence)
        log.write()
    return tmp_path / "log"


def opened(directory: Path, filesystem: FileSystem) -> Log:
    return Log.open(str(directory), Disk(filesystem, f"{directory}.trash"))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def alive(*lost: int) -> list[int]:
    return [sequence for sequence in range(COUNT) if sequence not in (1, 11, *lost)]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("block", [0, 1, 2])
def test_a_bad_sector_is_met_at_the_start(directory: Path, disk: BadSectors, which: int, block: int) -> None:
    path = segments(directory)[which]
    first = which * PER_SEGMENT
    # A record takes 1025 bytes, behind a header of 40; the third block is cut short by the end of the file.
    lost = [range(4), range(3, 8), range(7, 10)][block]
    disk.bad[path.name] = {block}
    left = alive(*(first + number for number in lost))
    report = check_log(disk, str(directory), "id")
    assert [record.sequence for record in dump_log(disk, str(directory))] == left
    log = opened(directory, disk)
    assert list(contents(log)) == left
    (damage,) = log.recovery.damages
    assert damage.set_aside == f"{path}.damaged-1"
    assert [(found.lost, found.bytes_lost) for found in report.damages] == [(damage.lost, damage.bytes_lost)]
    assert Path(damage.set_aside).read_bytes().count(BODY) == PER_SEGMENT, "the file itself is not touched"
    disk.bad.clear()
    again = opened(directory, disk)
    assert (list(contents(again)), again.recovery.damages) == (left, [])


def test_acks_that_cannot_be_read_bring_messages_back(directory: Path, disk: BadSectors) -> None:
    path = sorted(directory.glob("*.acks"))[0]
    disk.bad[path.name] = {0}
    report = check_log(disk, str(directory), "id")
    log = opened(directory, disk)
    assert list(contents(log)) == sorted([*alive(), 1])
    (damage,) = log.recovery.damages
    assert str(damage).startswith(f"{path} is damaged, set aside as {path.name}.damaged-1: 1 ack")
    assert [found.acks_lost for found in report.damages] == [1]
    log.ack(2)
    log.write()
    disk.bad.clear()
    assert list(contents(opened(directory, disk))) == sorted([*alive(2), 1])


def test_a_disk_that_is_gone_is_not_mistaken_for_damage(directory: Path, disk: BadSectors) -> None:
    path = segments(directory)[1]
    disk.bad[path.name] = {0, 1, 2}
    before = sorted(os.listdir(directory))
    with pytest.raises(OSError, match=path.name):
        opened(directory, disk)
    assert sorted(os.listdir(directory)) == before


def test_a_bad_sector_is_met_while_running(
    directory: Path, disk: BadSectors, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(directory, disk)
    path = segments(directory)[1]
    disk.bad[path.name] = {1}
    lost = range(13, 18)
    assert list(contents(log)) == alive(*lost)
    assert log.count == len(alive(*lost))
    assert f"{path} is damaged, set aside as {path.name}.damaged-1" in caplog.messages[-1]


def test_a_disk_that_goes_while_running_takes_nothing_away(directory: Path, disk: BadSectors) -> None:
    """It may come back: what is in a file of which nothing can be read is not called lost."""
    log = opened(directory, disk)
    path = segments(directory)[1]
    disk.bad[path.name] = {0, 1, 2}
    with pytest.raises(OSError, match=path.name):
        list(contents(log))
    assert (log.count, log.recovery.damages) == (len(alive()), [])
    assert not list(directory.glob("*.damaged-*"))
    disk.bad.clear()
    assert list(contents(log)) == alive()
