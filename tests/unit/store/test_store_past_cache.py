"""Writing past the page cache: when it is done, what stands in the file, and that nobody else notices."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from types import ModuleType

import pytest

from embermq.store.check import check_log
from embermq.store.disk import ROOM_BYTES, Disk
from embermq.store.filesystem import File, FileSystem
from embermq.store.kernel import BLOCK_BYTES, BLOCKS_BYTES, Blocks
from embermq.store.log import Log
from embermq.store.promise import Promise
from embermq.store.record import PERSISTENT
from embermq.store.room import give_up_room
from embermq.store.synced_write import ROOMS_AT_ONCE, STEADY_WRITES, WRITE_BYTES_MAX
from tests.unit.store.faulty_disk import FaultyFileSystem, blocks_of
from tests.unit.store.test_store_kernel import KERNELS
from tests.unit.store.test_store_log import contents


class Watching(FileSystem):
    """The real one; counts what goes past the cache."""

    def __init__(self) -> None:
        self.past_cache = 0
        self.cannot: int | None = None  # open files that way
        self.fails: int | None = None  # write that way
        self.short: int | None = None
        self.cannot_sync: int | None = None

    def sync(self, file: File) -> None:
        if self.cannot_sync is not None:
            raise OSError(self.cannot_sync, os.strerror(self.cannot_sync), file.path)
        super().sync(file)

    def open_past_cache(self, file: File) -> File:
        if self.cannot is not None:
            raise OSError(self.cannot, os.strerror(self.cannot), file.path)
        return super().open_past_cache(file)

    def write_blocks(self, file: File, data: bytearray, size: int, promise: Promise) -> int:
        self.past_cache += 1
        if self.fails is not None:
            raise OSError(self.fails, os.strerror(self.fails), file.path)
        if self.short is not None:
            blocks = blocks_of(file)
            assert blocks is not None
            return super().write_synced(file, data, self.short, blocks.end(), promise)
        return super().write_blocks(file, data, size, promise)


class Bench:
    def __init__(self, folder: Path, filesystem: FileSystem, segment_bytes: int = 8 << 20) -> None:
        self.folder, self.filesystem, self.segment_bytes = folder, filesystem, segment_bytes
        self.log = self.opened()

    def opened(self) -> Log:
        """As a new process would."""
        disk = Disk(self.filesystem, str(self.folder / "trash"))
        return Log.open(str(self.folder / "log"), disk, self.segment_bytes)

    def append(self, body: bytes = b"a message") -> None:
        self.log.append(self.log.next_sequence, 1000, PERSISTENT, (body,))

    def write(self, body: bytes = b"a message") -> bool:
        """As `Storage` does for one who waits alone; was it safe at once?"""
        self.append(body)
        if self.log.write_synced(Promise()):
            self.log.wrote_synced()
            return True
        self.write_as_always()
        return False

    def write_as_always(self) -> None:
        """With the committer behind it."""
        self.log.write()
        dirty = self.log.take_dirty()
        for file in dirty.files | dirty.acks:
            self.filesystem.sync(file)
        for directory in sorted(dirty.directories, reverse=True):
            self.filesystem.sync_directory(directory)

    def write_steadily(self) -> None:
        for _ in range(2 * STEADY_WRITES):
            self.write()

    def file(self) -> File:
        assert self.log.active is not None
        return self.log.disk.open_file(f"{self.log.directory}/{self.log.active.name}")

    def check(self) -> None:
        """What stands on the disk is what the log has, and sound."""
        assert not check_log(self.filesystem, self.log.directory, "log").damages  # opening mends them
        assert contents(self.opened()) == contents(self.log)


@pytest.fixture
def filesystem(tmp_path: Path) -> Watching:
    watching = Watching()
    file = watching.open(str(tmp_path / "probe"), create=True)
    try:
        watching.open_past_cache(file)
    except OSError as error:
        pytest.skip(f"this file system has no way past the page cache: {error}")
    return watching


@pytest.fixture
def bench(tmp_path: Path, filesystem: Watching) -> Bench:
    return Bench(tmp_path, filesystem)


def test_it_begins_after_some_writes_and_goes_on(bench: Bench, filesystem: Watching) -> None:
    writes = 0
    while not filesystem.past_cache:
        bench.write()
        writes += 1
    assert writes == STEADY_WRITES + 1, "the first one made the file"
    for _ in range(100):
        assert bench.write()
    assert filesystem.past_cache == 101
    bench.check()


@pytest.mark.parametrize("size", [1, 100, BLOCK_BYTES - 25, BLOCK_BYTES, 3000, WRITE_BYTES_MAX - 25])
def test_messages_of_any_size_stand_where_they_should(bench: Bench, filesystem: Watching, size: int) -> None:
    bench.write_steadily()
    for number in range(60):
        bench.write(bytes([number + 1]) * size)
    assert filesystem.past_cache >= 50
    bench.check()


def test_a_large_one_goes_the_usual_way_and_small_ones_again_past_the_cache(
    bench: Bench, filesystem: Watching
) -> None:
    bench.write_steadily()
    before = filesystem.past_cache
    bench.write(bytes(BLOCKS_BYTES))
    assert filesystem.past_cache == before
    bench.check()
    bench.write_steadily()
    assert filesystem.past_cache > before
    bench.check()


def test_others_who_write_to_the_file_end_it(bench: Bench, filesystem: Watching) -> None:
    bench.write_steadily()
    before = filesystem.past_cache
    bench.append(b"one of many")
    bench.append(b"another")
    bench.write_as_always()
    bench.check()
    for _ in range(STEADY_WRITES - 1):
        assert bench.write(b"behind it")
    assert filesystem.past_cache == before
    bench.write(b"past the cache again")
    assert filesystem.past_cache == before + 1
    bench.check()


def test_its_room_is_on_the_disk_and_goes_when_the_log_is_quiet(bench: Bench, filesystem: Watching) -> None:
    bench.write_steadily()
    path = Path(bench.file().path)
    assert ROOM_BYTES < path.stat().st_size - bench.log.bytes_on_disk <= ROOM_BYTES * ROOMS_AT_ONCE
    assert path.stat().st_blocks * 512 >= path.stat().st_size // BLOCK_BYTES * BLOCK_BYTES
    before = filesystem.past_cache
    for _ in range(ROOM_BYTES * ROOMS_AT_ONCE * 2 // 10_000):
        assert bench.write(bytes(10_000)), "room is made when it is used up"
    assert filesystem.past_cache - before == ROOM_BYTES * ROOMS_AT_ONCE * 2 // 10_000
    bench.check()
    give_up_room(bench.log)
    assert path.stat().st_size == bench.log.bytes_on_disk
    assert blocks_of(bench.file()) is None
    bench.write_steadily()
    bench.check()


def test_it_ends_with_the_segment(tmp_path: Path, filesystem: Watching) -> None:
    bench = Bench(tmp_path, filesystem, segment_bytes=50_000)
    for _ in range(1500):
        bench.write(bytes(100))
    assert len(bench.log.segments) == 4
    assert filesystem.past_cache > 1000
    bench.check()
    for path in (tmp_path / "log").glob("*.segment"):
        assert path.stat().st_size < 50_000 + BLOCK_BYTES


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EMFILE])
def test_a_file_system_that_has_no_such_way_is_left_alone(
    bench: Bench, filesystem: Watching, code: int
) -> None:
    filesystem.cannot = code
    bench.write_steadily()
    assert bench.write()
    assert filesystem.past_cache == 0
    bench.check()


def test_room_that_does_not_reach_the_disk_is_given_up(bench: Bench, filesystem: Watching) -> None:
    """As on a file system that looks for space when it is asked to sync."""
    for _ in range(2 * STEADY_WRITES):
        bench.append()
        filesystem.cannot_sync = errno.ENOSPC
        safe = bench.log.write_synced(Promise())
        filesystem.cannot_sync = None
        if safe:
            bench.log.wrote_synced()
        else:
            bench.write_as_always()
    assert filesystem.past_cache == 0
    bench.append(bytes(2 * ROOM_BYTES))  # beyond all other room
    bench.write_as_always()
    bench.log.roll()
    bench.append()
    bench.write_as_always()
    bench.check()


def test_one_that_finds_out_late_is_asked_once(bench: Bench, filesystem: Watching) -> None:
    filesystem.fails = errno.EINVAL
    bench.write_steadily()
    assert filesystem.past_cache == 1
    assert not bench.log.disk.passes_cache
    bench.write_steadily()
    assert filesystem.past_cache == 1
    bench.check()


def test_after_any_other_failure_the_ordinary_way_goes_on(bench: Bench, filesystem: Watching) -> None:
    bench.write_steadily()
    filesystem.fails = errno.EIO
    bench.append(b"refused")
    with pytest.raises(OSError, match="Input/output"):
        bench.log.write_synced(Promise())
    bench.write_as_always()
    bench.check()
    assert bench.write(b"and on")
    bench.check()


def test_after_a_short_write_the_ordinary_way_goes_on(bench: Bench, filesystem: Watching) -> None:
    bench.write_steadily()
    filesystem.short = 7
    assert not bench.write(b"longer than seven bytes")
    bench.check()
    filesystem.short = None
    bench.write_steadily()
    bench.check()


@pytest.mark.parametrize("seed", range(8))
def test_any_history(tmp_path: Path, filesystem: Watching, seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(tmp_path, filesystem, segment_bytes=chance.choice([9000, 30_000, 200_000]))
    bench.log.disk.room_bytes = chance.choice([1000, 5000, ROOM_BYTES])
    alive: list[int] = []
    for _ in range(25):
        for _ in range(chance.choice([1, STEADY_WRITES, 60])):
            alive.append(bench.log.next_sequence)
            bench.write(chance.randbytes(chance.choice([10, 100, 700, 5000])))
        what = chance.choice(["acks", "many", "quiet", "read", "nothing", "acks written"])
        if what.startswith("acks"):
            for sequence in chance.sample(alive, len(alive) // 3):
                bench.log.ack(sequence)
                alive.remove(sequence)
            if what == "acks written":
                bench.write_as_always()
        elif what == "many":
            for _ in range(chance.randint(2, 40)):
                alive.append(bench.log.next_sequence)
                bench.append(chance.randbytes(300))
            bench.write_as_always()
        elif what == "quiet":
            give_up_room(bench.log)
        elif what == "read" and alive:
            assert bench.log.read(alive[0])
    bench.write_as_always()
    assert sorted(contents(bench.log)) == alive
    bench.check()


@pytest.mark.parametrize("seed", range(6))
def test_what_went_past_the_cache_survives_a_power_cut(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    (tmp_path / "disk").mkdir()
    filesystem = FaultyFileSystem(str(tmp_path / "disk"))
    bench = Bench(tmp_path / "disk", filesystem)
    bench.log.disk.room_bytes = 3000
    bodies = [b"%d" % number * chance.choice([1, 30, 300]) for number in range(chance.randint(40, 90))]
    for body in bodies:
        bench.write(body)
    assert blocks_of(bench.file()) is not None
    filesystem.power_cut(str(tmp_path / "after"), chance)
    after = Bench(tmp_path / "after", FileSystem())
    assert [payload for _, _, payload in contents(after.log).values()] == bodies


# -- the blocks themselves


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_keep_the_last_one(kernel: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000 + bytes(95_000))
    descriptor = os.open(path, os.O_RDWR)
    blocks: Blocks = kernel.Blocks(descriptor, 5000, b"x" * (5000 - BLOCK_BYTES), 100_000)
    assert (blocks.begin, blocks.end()) == (BLOCK_BYTES, 5000)
    expected = b"x" * 5000
    chance = random.Random(1)
    for size in (1, 100, 4000, 4096, 12_000, 7, 5000):
        data = bytearray(chance.randbytes(size))
        assert blocks.fit(len(expected), size)
        assert blocks.write_through(data, size, Promise()) == size
        expected += bytes(data)
        assert path.read_bytes() == expected + bytes(100_000 - len(expected))
        assert (blocks.end(), blocks.begin % BLOCK_BYTES) == (len(expected), 0)
    os.close(descriptor)


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_know_what_fits(kernel: ModuleType) -> None:
    blocks: Blocks = kernel.Blocks(-1, 100, bytes(100), 3 * BLOCK_BYTES + 5)
    assert blocks.fit(100, 3 * BLOCK_BYTES - 100)
    assert not blocks.fit(100, 3 * BLOCK_BYTES - 99), "the last block must be whole"
    assert not blocks.fit(99, 1)
    assert not blocks.fit(101, 1)
    blocks.limit = 10 * BLOCKS_BYTES
    assert blocks.fit(100, BLOCKS_BYTES - 100)
    assert not blocks.fit(100, BLOCKS_BYTES - 99)
    with pytest.raises(IndexError):
        blocks.lay(bytearray(BLOCKS_BYTES), BLOCKS_BYTES - 99)
    with pytest.raises(IndexError):
        blocks.lay(bytearray(10), 11)
    with pytest.raises(ValueError, match="99 bytes of a block that holds 100"):
        kernel.Blocks(-1, 100, bytes(99), 1000)
