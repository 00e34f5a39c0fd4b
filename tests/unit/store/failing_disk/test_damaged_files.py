"""Damaged files: a log never gives out a wrong message, never fails to open, and says what it lost."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.errors import NewerVersion
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE, SEQUENCE_MAX, encode_segment_header
from embermq.store.recovery.check import check_log
from embermq.store.recovery.recovery import Damage
from tests.unit.store.log.test_log import Entry, contents

ACKED = {1, 2, 7}


class HastyFileSystem(FileSystem):
    """Recovery syncs what it repairs; a thousand recoveries need not wait for the disk."""

    def sync(self, file: File) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


def open_log(directory: Path) -> Log:
    """Open with nothing remembered, as a new process would."""
    return Log.open(str(directory), Disk(HastyFileSystem(), f"{directory}.trash"))


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A log of three segments with five records each, some of them acked in two goes."""
    directory = tmp_path / "original"
    log = open_log(directory)
    for sequence in range(15):
        if sequence in (5, 10):
            log.roll()
        log.append(sequence, 1000 + sequence, PERSISTENT, (b"message %d" % sequence, bytes([sequence]) * 9))
    for sequence in sorted(ACKED):
        log.ack(sequence)
        log.write()
    log.disk.wait_deleted()
    return directory


def expected() -> dict[int, Entry]:
    return {
        sequence: (1000 + sequence, PERSISTENT, b"message %d" % sequence + bytes([sequence]) * 9)
        for sequence in range(15)
    }


def alive() -> dict[int, Entry]:
    return {sequence: entry for sequence, entry in expected().items() if sequence not in ACKED}


def copy(original: Path, tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(original, target)
    return target


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def check_reopens_the_same(directory: Path, found: dict[int, Entry]) -> None:
    """Recovery has repaired what it found: the next one finds nothing, and appending works."""
    log = open_log(directory)
    assert log.recovery.damages == []
    assert log.recovery.torn_bytes == 0
    assert contents(log) == found
    new = log.next_sequence
    log.append(new, 1, PERSISTENT, (b"new",))
    oldest = min(found)
    log.ack(oldest)
    log.write()
    log = open_log(directory)
    assert contents(log).keys() == (found.keys() | {new}) - {oldest}


def test_the_tail_cut_at_every_byte(original: Path, tmp_path: Path) -> None:
    last = segments(original)[-1].name
    record_size = 25 + len(b"message 10" + b"x" * 9)
    for size in range((original / last).stat().st_size):
        directory = copy(original, tmp_path)
        os.truncate(directory / last, size)
        whole = max(0, size - SEGMENT_HEADER_SIZE) // record_size
        log = open_log(directory)
        assert log.recovery.damages == []
        found = contents(log)
        assert found == {sequence: entry for sequence, entry in alive().items() if sequence < 10 + whole}
        check_reopens_the_same(directory, found)


@pytest.mark.parametrize("zeros", [1, 30, 5000])
def test_zeros_behind_the_last_record_are_nothing(original: Path, tmp_path: Path, zeros: int) -> None:
    directory = copy(original, tmp_path)
    size = segments(directory)[-1].stat().st_size
    with segments(directory)[-1].open("ab") as file:
        file.write(bytes(zeros))
    log = open_log(directory)
    assert (log.recovery.torn_bytes, log.recovery.damages) == (0, [])
    assert segments(directory)[-1].stat().st_size == size
    check_reopens_the_same(directory, alive())


def test_the_tail_zero_from_every_byte_on(original: Path, tmp_path: Path) -> None:
    """What was not synced when the power failed, in a file with room at its end."""
    last = segments(original)[-1].name
    data = (original / last).read_bytes()
    record_size = 25 + len(b"message 10" + b"x" * 9)
    for kept in range(len(data)):
        directory = copy(original, tmp_path)
        (directory / last).write_bytes(data[:kept].ljust(len(data) + 100, b"\0"))
        whole = max(0, kept - SEGMENT_HEADER_SIZE) // record_size
        log = open_log(directory)
        assert log.recovery.damages == []
        assert log.recovery.torn_bytes <= max(0, kept - SEGMENT_HEADER_SIZE) % record_size
        found = contents(log)
        assert found == {sequence: entry for sequence, entry in alive().items() if sequence < 10 + whole}
        check_reopens_the_same(directory, found)


def test_any_byte_flipped_in_a_segment_with_room(original: Path, tmp_path: Path) -> None:
    last = segments(original)[-1].name
    size = (original / last).stat().st_size
    for position in range(0, size + 40, 3):
        directory = copy(original, tmp_path)
        data = bytearray((directory / last).read_bytes().ljust(size + 40, b"\0"))
        data[position] ^= 0xFF
        (directory / last).write_bytes(data)
        log = open_log(directory)
        found = contents(log)
        assert found.items() <= alive().items()
        lost = alive().keys() - found.keys()
        assert len(lost) <= (1 if SEGMENT_HEADER_SIZE <= position < size else 0)
        if position >= size or lost == {14}:
            # A write that was cut off leaves the same behind.
            assert (log.recovery.torn_bytes > 0, log.recovery.damages) == (True, [])
        else:
            assert len(log.recovery.damages) == 1
        check_reopens_the_same(directory, found)


def test_records_behind_zeros_are_saved_and_the_rest_is_called_damage(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    last = segments(directory)[-1]
    data = bytearray(last.read_bytes())
    record_size = 25 + len(b"message 10" + b"x" * 9)
    data[SEGMENT_HEADER_SIZE + record_size : SEGMENT_HEADER_SIZE + 3 * record_size] = bytes(2 * record_size)
    last.write_bytes(data + bytes(100))
    log = open_log(directory)
    found = contents(log)
    assert found == {s: entry for s, entry in alive().items() if s not in (11, 12)}
    (damage,) = log.recovery.damages
    assert damage.records_saved == 3
    check_reopens_the_same(directory, found)


def test_zeros_at_the_end_of_a_full_segment_are_damage(original: Path, tmp_path: Path) -> None:
    """Only the file that is appended to has room: another one has lost something."""
    directory = copy(original, tmp_path)
    middle = segments(directory)[1]
    data = middle.read_bytes()
    middle.write_bytes(data[:-9] + bytes(9))
    log = open_log(directory)
    assert contents(log) == {s: entry for s, entry in alive().items() if s != 9}
    (damage,) = log.recovery.damages
    assert damage.bytes_lost == 25 + len(b"message 9" + b"x" * 9)
    assert damage.lost == ((9, 10),)


def test_where_the_last_file_would_have_ended_nobody_knows(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    last = segments(directory)[2]
    data = last.read_bytes()
    size = len(data) - SEGMENT_HEADER_SIZE
    last.write_bytes(bytes(SEGMENT_HEADER_SIZE) + data[SEGMENT_HEADER_SIZE : -size // 5 - 9])
    (damage,) = open_log(directory).recovery.damages
    assert damage.records_saved == 3
    assert damage.lost == ((13, SEQUENCE_MAX),)
    assert str(damage).endswith("bytes lost (among sequences 13 and later)")


def test_the_places_where_records_are_missing() -> None:
    def lost(*places: tuple[int, int]) -> str:
        return str(Damage("a", "", 1, 9, places)).removeprefix(
            "a is damaged: 1 live records saved, 9 bytes lost"
        )

    assert lost() == ""
    assert lost((7, 7)) == "", "none of them, between two files that follow each other"
    assert lost((3, 4)) == " (among sequences 3..3)"
    assert lost((3, 4), (7, 7), (9, 12)) == " (among sequences 3..3, 9..11)"
    assert lost((3, 4), (9, SEQUENCE_MAX)) == " (among sequences 3..3, 9 and later)"
    many = [(at, at + 1) for at in range(7)]
    assert lost(*many) == " (among sequences 0..0, 1..1, 2..2, 3..3, 4..4 and 2 more places)"


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_byte_of_a_segment_flipped(original: Path, tmp_path: Path, which: int, flip: int) -> None:
    name = segments(original)[which].name
    for position in range(0, (original / name).stat().st_size, 1 if flip == 0xFF else 7):
        directory = copy(original, tmp_path)
        data = bytearray((directory / name).read_bytes())
        data[position] ^= flip
        (directory / name).write_bytes(data)
        log = open_log(directory)
        found = contents(log)
        # One record at most is lost, every other is there as it was.
        assert found.items() <= alive().items()
        lost = alive().keys() - found.keys()
        assert len(lost) <= (0 if position < SEGMENT_HEADER_SIZE else 1)
        assert log.count == len(found)
        torn = which == 2 and log.recovery.torn_bytes > 0 and lost == {14}
        if not torn:
            (damage,) = log.recovery.damages
            assert damage.path == str(directory / name)
            assert Path(damage.set_aside).read_bytes() == data
            assert ".segment.damaged-1" in damage.set_aside
            assert all(any(first <= gone < stop for first, stop in damage.lost) for gone in lost)
            assert f"{damage.records_saved} live records saved" in str(damage)
        if position % 5 == 0:
            check_reopens_the_same(directory, found)


def test_any_byte_of_an_ack_file_flipped(original: Path, tmp_path: Path) -> None:
    for ack_file in sorted(original.glob("*.acks")):
        for position in range(ack_file.stat().st_size):
            directory = copy(original, tmp_path)
            data = bytearray((directory / ack_file.name).read_bytes())
            data[position] ^= 0xFF
            (directory / ack_file.name).write_bytes(data)
            found = contents(open_log(directory))
            # Acks may be lost, which brings messages back; none may be taken away.
            assert alive().items() <= found.items() <= expected().items()
            check_reopens_the_same(directory, found)


def test_an_ack_file_cut_at_every_byte(original: Path, tmp_path: Path) -> None:
    ack_file = min(original.glob("*.acks"))
    for size in range(ack_file.stat().st_size):
        directory = copy(original, tmp_path)
        os.truncate(directory / ack_file.name, size)
        log = open_log(directory)
        assert log.recovery.damages == []
        found = contents(log)
        assert alive().items() <= found.items() <= expected().items()
        check_reopens_the_same(directory, found)


def test_a_segment_that_is_garbage_is_set_aside_whole(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    middle = segments(directory)[1]
    middle.write_bytes(b"not a segment at all" * 20)
    log = open_log(directory)
    assert contents(log) == {s: entry for s, entry in alive().items() if not 5 <= s < 10}
    (damage,) = log.recovery.damages
    assert (damage.records_saved, damage.bytes_lost) == (0, 400)


@pytest.mark.parametrize("size", [0, 1, SEGMENT_HEADER_SIZE - 1])
def test_a_segment_of_which_nothing_is_left(original: Path, tmp_path: Path, size: int) -> None:
    directory = copy(original, tmp_path)
    os.truncate(segments(directory)[1], size)
    report = check_log(FileSystem(), str(directory), "id")
    log = open_log(directory)
    assert contents(log) == {s: entry for s, entry in alive().items() if not 5 <= s < 10}
    (damage,) = log.recovery.damages
    assert damage.lost == ((5, 10),)
    assert "among sequences 5..9" in str(damage)
    assert [found.lost for found in report.damages] == [damage.lost]
    assert [found.bytes_lost for found in report.damages] == [damage.bytes_lost]


def test_damaged_files_are_numbered(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    middle = segments(directory)[1]
    data = middle.read_bytes()
    for number in (1, 2):
        middle.write_bytes(data[:60] + b"#" + data[61:])
        log = open_log(directory)
        assert f"damaged-{number}" in log.recovery.damages[-1].set_aside


def test_a_message_that_quotes_a_segment_is_not_mistaken_for_one(original: Path, tmp_path: Path) -> None:
    """The payload holds sound records of another segment with fitting sequences; its header is destroyed."""
    quoted = segments(original)[0].read_bytes()[SEGMENT_HEADER_SIZE:]
    directory = tmp_path / "quoting"
    log = open_log(directory)
    log.append(0, 0, PERSISTENT, (quoted,))
    log.append(100, 0, PERSISTENT, (b"behind",))
    log.write()
    (path,) = segments(directory)
    data = bytearray(path.read_bytes())
    data[SEGMENT_HEADER_SIZE] ^= 1
    path.write_bytes(data)
    assert list(contents(open_log(directory))) == [100]


def test_an_interrupted_rescue_is_finished(original: Path, tmp_path: Path) -> None:
    """The rescued segment is in place, and the process died before the damaged one was moved away."""
    directory = copy(original, tmp_path)
    middle = segments(directory)[1]
    data = bytearray(middle.read_bytes())
    data[60] ^= 1
    middle.write_bytes(data)
    found = contents(open_log(directory))
    middle.write_bytes(data)
    (directory / "00000000000000000005-0000000000000000.segment.new").write_bytes(b"half")
    log = open_log(directory)
    assert contents(log) == found
    check_reopens_the_same(directory, found)
    assert not list(directory.glob("*.new"))


def test_a_newer_version_is_refused_and_nothing_touched(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    first, _, last = segments(directory)
    os.truncate(first, first.stat().st_size - 3)
    header = bytearray(last.read_bytes()[:SEGMENT_HEADER_SIZE])
    header[8] = 2
    header[36:40] = zlib.crc32(header[:36]).to_bytes(4, "little")
    last.write_bytes(bytes(header) + last.read_bytes()[SEGMENT_HEADER_SIZE:])
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(NewerVersion, match="format version 2; this EmberMQ reads up to version 1"):
        open_log(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_files_of_others_are_left_alone(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    strangers = ["note.txt", "5-abc.segment", "x" * 20 + "-0123456789abcdef.segment"]
    for name in strangers:
        (directory / name).write_bytes(encode_segment_header(0, 0, 0))
    assert contents(open_log(directory)) == alive()
    assert all((directory / name).exists() for name in strangers)


def test_damage_while_running_is_skipped_and_reported(
    original: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = copy(original, tmp_path)
    log = open_log(directory)
    name = segments(directory)[1].name
    with (directory / name).open("r+b") as file:
        file.seek(SEGMENT_HEADER_SIZE + 2 * (25 + 18) + 30)
        file.write(b"#")
    found = contents(log)
    assert found == alive()  # record 7 was acked: nothing alive was hit ...
    with (directory / name).open("r+b") as file:
        file.seek(SEGMENT_HEADER_SIZE + 3 * (25 + 18) + 30)
        file.write(b"#")
    found = contents(log)
    assert found == {s: entry for s, entry in alive().items() if s != 8}  # ... and now record 8
    assert log.count == len(found)
    assert f"{directory / name} is damaged, set aside as" in caplog.messages[-1]
    for sequence in found:
        log.ack(sequence)
    log.write()
    log.disk.wait_deleted()
    assert all("damaged" in entry for entry in os.listdir(directory) if entry.startswith(name))


def test_a_damaged_file_gets_one_name_however_often_it_is_met(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    log = open_log(directory)
    path = segments(directory)[1]
    for record in (3, 5):  # one after the other, as a disk goes bad
        with path.open("r+b") as file:
            file.seek(SEGMENT_HEADER_SIZE + record * (25 + 18) + 30)
            file.write(b"#")
        contents(log)
    found = contents(log)
    damaged = path.read_bytes()
    assert contents(open_log(directory)) == found
    (aside,) = directory.glob("*.segment.damaged-*")
    assert aside.name == f"{path.name}.damaged-1" and aside.read_bytes() == damaged
    assert not path.exists()
