"""A write that is safe when it returns: only where one call can do it, with nothing lost where it fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.log.log import Log
from embermq.store.log.preallocation import WRITES_BEFORE_ROOM
from embermq.store.log.record import PERSISTENT
from tests.support.faulty_disk import FaultyFileSystem
from tests.unit.store.log.test_log import contents


@pytest.fixture
def filesystem(tmp_path: Path) -> FaultyFileSystem:
    (tmp_path / "disk").mkdir()
    return FaultyFileSystem(str(tmp_path / "disk"))


@pytest.fixture
def log(filesystem: FaultyFileSystem) -> Log:
    """Synced, with room at its end, nothing to be written."""
    opened = open_log(filesystem.root, filesystem)
    for _ in range(WRITES_BEFORE_ROOM):
        append(opened)
        opened.write()
    settle(opened, filesystem)
    return opened


def open_log(root: str, filesystem: FaultyFileSystem) -> Log:
    return Log.open(f"{root}/log", Disk(filesystem, f"{root}/trash"), segment_bytes=1 << 20)


def append(log: Log, body: bytes = b"a message") -> None:
    log.append(log.next_sequence, 1000, PERSISTENT, (body,))


def settle(log: Log, filesystem: FaultyFileSystem) -> None:
    """As the committer does."""
    dirty = log.take_dirty()
    for file in dirty.files | dirty.acks:
        filesystem.sync(file)
    for directory in sorted(dirty.directories, reverse=True):
        filesystem.sync_directory(directory)


def bodies(log: Log) -> list[bytes]:
    return [payload for _, _, payload in contents(log).values()]


def after_power_cut(filesystem: FaultyFileSystem, tmp_path: Path, seed: int) -> list[bytes]:
    target = tmp_path / f"after-{seed}"
    filesystem.power_cut(str(target), random.Random(seed))
    return bodies(open_log(str(target), FaultyFileSystem(str(target))))


def test_what_it_wrote_is_safe(log: Log, filesystem: FaultyFileSystem, tmp_path: Path) -> None:
    syncs = filesystem.sync_calls
    for number in range(5):
        append(log, b"%d" % number)
        assert log.write_synced()
    assert filesystem.sync_calls == syncs + 5
    assert not log.take_dirty().files
    for seed in range(10):
        found = after_power_cut(filesystem, tmp_path, seed)
        assert found == [b"a message"] * WRITES_BEFORE_ROOM + [b"%d" % number for number in range(5)]


def test_after_a_short_write_the_ordinary_way_goes_on(
    log: Log, filesystem: FaultyFileSystem, tmp_path: Path
) -> None:
    filesystem.write_bytes_max = 7
    append(log, b"longer than seven bytes")
    assert not log.write_synced()
    log.write()
    settle(log, filesystem)
    assert after_power_cut(filesystem, tmp_path, 1)[-1] == b"longer than seven bytes"
    filesystem.write_bytes_max = None
    append(log, b"and on")
    assert log.write_synced()
    assert after_power_cut(filesystem, tmp_path, 2)[-2:] == [b"longer than seven bytes", b"and on"]


def test_it_is_not_for_a_file_that_holds_more_that_is_not_safe(log: Log) -> None:
    append(log)
    log.write()
    append(log)
    assert not log.write_synced()
    log.take_dirty()
    assert log.write_synced()


def test_it_is_not_for_a_new_file(filesystem: FaultyFileSystem) -> None:
    log = open_log(filesystem.root, filesystem)
    append(log)
    assert not log.write_synced()


def test_it_is_not_for_one_that_must_grow(log: Log) -> None:
    append(log, bytes(100_000))
    assert not log.write_synced()


def test_it_is_not_for_acks(log: Log) -> None:
    append(log)
    log.ack(log.next_sequence - 2)
    assert not log.write_synced()
    log.write()


def test_it_is_not_for_what_is_gone_already(log: Log) -> None:
    append(log)
    log.purge_from(0)
    assert not log.write_synced()


def test_there_is_nothing_to_do(log: Log) -> None:
    assert not log.write_synced()


@pytest.mark.parametrize("fault", ["full", "sync"])
def test_after_a_failure_the_ordinary_way_goes_on(log: Log, filesystem: FaultyFileSystem, fault: str) -> None:
    append(log, b"first")
    append(log, b"second")
    if fault == "full":
        filesystem.space_left = 0
    else:
        filesystem.failing_syncs = True
    with pytest.raises(OSError):
        log.write_synced()
    filesystem.space_left, filesystem.failing_syncs = None, False
    log.write()
    assert log.take_dirty().files, "the committer has to sync it"
    assert bodies(open_log(filesystem.root, filesystem))[-2:] == [b"first", b"second"]
