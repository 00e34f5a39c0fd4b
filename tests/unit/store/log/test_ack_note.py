"""Numbers kept beside records: read again after a restart, whatever else stands in the ack file."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.ack_note import note
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(FileSystem(), str(tmp_path / "trash"))


def filled(disk: Disk, directory: Path) -> Log:
    log = Log.open(str(directory / "log"), disk)
    for sequence in range(1, 11):
        log.append(sequence, 1, PERSISTENT, (b"x",))
    return log


def test_the_last_note_counts_and_acked_records_have_none(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    for sequence, number in ((3, 1), (4, 1), (3, 2), (9, 2**31 - 1)):
        assert note(log, sequence, number)
    log.write()
    log.ack_many([1, 2, 4])
    assert not note(log, 4, 5)
    assert not note(log, 99, 5)
    log.write()
    again = Log.open(str(tmp_path / "log"), disk)
    assert again.count == 7
    assert again.recovery.notes == {3: 2, 9: 2**31 - 1}
    assert note(again, 3, 3)
    again.write()
    assert Log.open(str(tmp_path / "log"), disk).recovery.notes[3] == 3


def test_a_damaged_ack_file_keeps_its_other_notes(disk: Disk, tmp_path: Path) -> None:
    log = filled(disk, tmp_path)
    for sequence in (2, 5, 7):
        note(log, sequence, sequence)
    log.ack(1)
    log.write()
    (path,) = (tmp_path / "log").glob("*.acks")
    data = bytearray(path.read_bytes())
    data[32 + 16 + 9] ^= 0xFF  # in the second entry
    path.write_bytes(data)
    for _ in range(2):  # what recovery writes is sound
        again = Log.open(str(tmp_path / "log"), disk)
        assert again.recovery.notes == {2: 2, 7: 7}
        assert again.count == 9
    assert not again.recovery.damages
