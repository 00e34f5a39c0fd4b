"""Disks that fill up, write short, refuse to sync, or lose their power."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem, write_all
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.log.segment import Segment, new_identity
from embermq.store.log.segment_file import encode_segment_header
from tests.support.faulty_disk import FaultyFileSystem
from tests.unit.store.log.test_log import contents, fill


def faulty_log(tmp_path: Path, segment_bytes: int = 2000) -> tuple[FaultyFileSystem, Log]:
    filesystem = FaultyFileSystem(str(tmp_path))
    disk = Disk(filesystem, str(tmp_path / "trash"))
    return filesystem, Log.open(str(tmp_path / "log"), disk, segment_bytes)


def reopened(log: Log) -> Log:
    return Log.open(log.directory, Disk(FileSystem(), log.disk.trash), log.segment_bytes)


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_short_writes_are_continued(tmp_path: Path, limit: int) -> None:
    filesystem, log = faulty_log(tmp_path)
    filesystem.write_bytes_max = limit
    fill(log, 10)
    log.write()
    fill(log, 20)
    log.ack_many([1, 3, 15])
    log.write()
    assert contents(reopened(log)) == contents(log)
    assert log.count == 27


def test_a_full_disk_at_every_byte_loses_nothing_once_there_is_room(tmp_path: Path) -> None:
    for space in range(0, 1650, 31):
        directory = tmp_path / str(space)
        directory.mkdir()
        filesystem, log = faulty_log(directory)
        fill(log, 6)
        log.write()
        filesystem.space_left = space
        fill(log, 14)
        log.ack_many([0, 5, NEVER_WRITTEN])
        expected = contents(log)
        with pytest.raises(OSError, match="No space left") as raised:
            log.write()
        assert raised.value.errno == errno.ENOSPC
        assert contents(log) == expected
        # A crash now leaves a beginning of it, and no damage.
        after_crash = directory / "crashed"
        if os.path.exists(log.directory):
            shutil.copytree(log.directory, after_crash)
            crashed = Log.open(str(after_crash), Disk(FileSystem(), str(directory / "trash2")))
            assert crashed.recovery.damages == []
            found = contents(crashed)
            assert list(found) in ([s for s in list_of if s <= max(found, default=-1)] for list_of in SOME)
        fill(log, 5)
        filesystem.space_left = None
        log.write()
        assert log.count == 22
        assert contents(reopened(log)) == contents(log)


NEVER_WRITTEN = 10  # acked before
WRITTEN = [s for s in range(25) if s != NEVER_WRITTEN]
SOME = (
    [s for s in WRITTEN if s not in (0, 5)],  # with both acks,
    [s for s in WRITTEN if s != 0],  # the first,
    [s for s in WRITTEN if s != 5],  # the second (they may be in different files),
    WRITTEN,  # or none
)


def test_acks_on_a_full_disk_make_room(tmp_path: Path) -> None:
    filesystem, log = faulty_log(tmp_path)
    fill(log, 50)
    log.write()
    filesystem.space_left = 0
    fill(log, 1)
    log.ack_many(range(50))
    log.roll()
    with pytest.raises(OSError, match="No space left"):
        log.write()
    log.disk.wait_deleted()
    assert len(list((tmp_path / "log").glob("*.segment"))) <= 1
    assert list(contents(log)) == [50]
    filesystem.space_left = None
    log.write()
    assert list(contents(reopened(log))) == [50]


def sync(log: Log, filesystem: FaultyFileSystem, with_acks: bool) -> None:
    """What the committer does."""
    dirty = log.take_dirty()
    for file in dirty.files:
        filesystem.sync(file)
    if with_acks:
        for file in dirty.acks:
            filesystem.sync(file)
    else:
        log.dirty_acks |= dirty.acks
    for directory in dirty.directories:
        filesystem.sync_directory(directory)


@pytest.mark.parametrize("seed", range(15))
def test_a_power_cut_while_files_are_deleted_brings_nothing_back(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    filesystem, log = faulty_log(root, segment_bytes=500)
    go_on = threading.Event()
    filesystem.before_unlink = go_on.wait
    fill(log, 30)
    log.write()
    log.ack_many([0, 7, 14, 20])
    log.write()
    sync(log, filesystem, with_acks=True)
    log.purge_from(0)
    log.write()
    sync(log, filesystem, with_acks=True)
    go_on.set()
    log.disk.wait_deleted()
    filesystem.power_cut(str(tmp_path / "survived"), random.Random(seed))
    recovered = Log.open(str(tmp_path / "survived" / "log"), Disk(FileSystem(), str(tmp_path / "trash")))
    assert contents(recovered) == {}


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_a_power_cut_loses_nothing_that_was_synced(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    root = tmp_path_factory.mktemp("power")
    filesystem, log = faulty_log(root, segment_bytes=chance.choice([300, 2000, 10_000]))
    everything: dict[int, bytes] = {}
    safe: set[int] = set()
    acked: set[int] = set()
    acked_safely: set[int] = set()
    for round_number in range(chance.randint(1, 6)):
        for _ in range(chance.randint(0, 20)):
            sequence = log.next_sequence + chance.choice([0, 0, 0, 3])
            flags = chance.choice([PERSISTENT, PERSISTENT, PERSISTENT, 0])
            payload = b"%d/" % round_number + chance.randbytes(chance.randint(0, 150))
            log.append(sequence, sequence, flags, (payload,))
            if flags:
                everything[sequence] = payload
        waiting = sorted(everything.keys() - acked)
        for sequence in chance.choice([waiting, waiting[: len(waiting) // 2], waiting[::3], []]):
            acked.add(sequence)
            log.ack(sequence)
        if chance.random() < 0.8:
            log.write()
            if chance.random() < 0.7:
                with_acks = chance.random() < 0.5
                sync(log, filesystem, with_acks)
                safe = set(everything)
                if with_acks:
                    acked_safely = set(acked)
        if chance.random() < 0.2:
            log.disk.wait_deleted()
    survived = root.parent / f"{root.name}-survived"
    filesystem.power_cut(str(survived), chance)
    log.disk.close()
    recovered = Log.open(str(survived / "log"), Disk(FileSystem(), str(survived / "trash")))
    found = contents(recovered)
    assert all(payload == everything[sequence] for sequence, (_, _, payload) in found.items())
    assert safe - acked <= found.keys()
    assert not acked_safely & found.keys()
    # What comes next is neither lost nor taken for something acked.
    first = recovered.next_sequence
    fill(recovered, 3)
    recovered.write()
    again = contents(reopened(recovered))
    assert again.keys() == found.keys() | set(range(first, first + 3))
    # The thread that removes what is not needed any more may still be at it.
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(survived, ignore_errors=True)


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_after_a_recovery_brings_nothing_back(tmp_path: Path, seed: int) -> None:
    """Recovery deletes what is fully acked: the acks must not go before the segment does, for good."""
    root = tmp_path / "root"
    root.mkdir()
    filesystem, log = faulty_log(root, segment_bytes=1_000_000)  # drained, but too small to be let go of
    fill(log, 10)
    log.write()
    log.ack_many(range(10))
    log.write()
    sync(log, filesystem, with_acks=True)
    log.disk.close()
    restarted = Log.open(log.directory, Disk(filesystem, log.disk.trash))
    assert contents(restarted) == {}
    restarted.disk.wait_deleted()
    filesystem.power_cut(str(tmp_path / "survived"), random.Random(seed))
    recovered = Log.open(str(tmp_path / "survived" / "log"), Disk(FileSystem(), str(tmp_path / "trash")))
    assert contents(recovered) == {}


class Forgetful(random.Random):
    """Chance at its worst: of what was not synced, nothing survives."""

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return a


def test_a_segment_that_recovery_deleted_does_not_come_back_and_push_others_out(tmp_path: Path) -> None:
    """An empty segment behind the active one is deleted, and its sequences are used again, in the active one.

    If a power cut brought its name back, the records with these sequences would look misplaced.
    """
    root = tmp_path / "root"
    root.mkdir()
    filesystem, log = faulty_log(root, segment_bytes=1_000_000)
    fill(log, 5)
    log.write()
    sync(log, filesystem, with_acks=True)
    empty = Segment(log.next_sequence, new_identity())
    file = filesystem.open(os.path.join(log.directory, empty.name), create=True)
    write_all(filesystem, file, encode_segment_header(empty.first, empty.identity, 0), 0)
    filesystem.sync(file)
    filesystem.sync_directory(log.directory)
    log.disk.close()

    restarted = Log.open(log.directory, Disk(filesystem, log.disk.trash), log.segment_bytes)
    restarted.append(restarted.next_sequence, 0, PERSISTENT, (b"confirmed",))
    restarted.write()
    sync(restarted, filesystem, with_acks=True)
    filesystem.power_cut(str(tmp_path / "survived"), Forgetful(0))
    recovered = Log.open(str(tmp_path / "survived" / "log"), Disk(FileSystem(), str(tmp_path / "trash")))
    assert not recovered.recovery.damages
    assert [record.payload for record in recovered.read(0)][-1] == b"confirmed"
    assert len(contents(recovered)) == 6
