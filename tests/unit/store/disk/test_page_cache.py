"""The page cache and a log: what is far behind its reader need not be there, what is not there is fetched."""

from __future__ import annotations

import errno
import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.disk.page_cache import PageCache
from embermq.store.log import log as log_module
from embermq.store.log import reader as reader_module
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT, RECORD_HEADER_SIZE
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE

SEGMENT_BYTES = 10_000
KEPT_SEGMENTS = 5
SIZE = 1_000_000


class Watched(FileSystem):
    """Remembers what it was told and asked, by the names of the files."""

    def __init__(self) -> None:
        self.cold = False
        self.answer: OSError | None = None  # to who asks
        self.expected: list[tuple[str, int]] = []
        self.not_expected: list[str] = []
        self.fetched: list[tuple[str, int, int]] = []

    def is_cached(self, file: File, size: int, position: int) -> bool:
        if self.answer is not None:
            raise self.answer
        return not self.cold

    def advise(self, file: File, size: int, position: int, wanted: bool) -> None:
        super().advise(file, size, position, wanted)
        name = os.path.basename(file.path)
        if wanted:
            self.expected.append((name, position))
        else:
            self.not_expected.append(name)

    def read_at(self, file: File, size: int, position: int) -> bytes:
        if threading.current_thread().name == "store-cache":
            self.fetched.append((os.path.basename(file.path), position, size))
        return super().read_at(file, size, position)


class Queue:
    """A log as a queue has it."""

    def __init__(self, directory: Path) -> None:
        self.filesystem = Watched()
        self.called = 0
        self.cache = PageCache(self.filesystem, lambda call: call())
        self.disk = Disk(self.filesystem, str(directory / "trash"), cache=self.cache)
        self.log = Log.open(str(directory / "log"), self.disk, SEGMENT_BYTES)
        self.log.in_order = True

    def done(self) -> None:
        self.called += 1

    def fill(self, segments: int) -> None:
        end = len(self.log.segments) + segments
        while len(self.log.segments) < end:
            self.log.append(self.log.next_sequence, 1000, PERSISTENT, (b"x" * 1000,))
            self.log.write()
        self.cache.wait()

    def read(self, segments: int) -> None:
        """So many from the beginning, whole, in small pieces."""
        sequence = self.log.first_sequence
        while sequence <= self.log.segments[segments - 1].last:
            sequence = self.log.read(sequence, 2000)[-1].sequence + 1

    def names(self, begin: int, end: int) -> list[str]:
        return [segment.name for segment in self.log.segments[begin:end]]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    # The last record of a segment reaches beyond its size.
    monkeypatch.setattr(log_module, "KEPT_BYTES", KEPT_SEGMENTS * (SEGMENT_BYTES + 1000))
    return Queue(tmp_path)


def test_what_is_far_behind_the_reader_is_let_go_of(queue: Queue) -> None:
    queue.fill(20)
    # The first five are read next; the last is written to, and one before it may not be safe.
    assert queue.filesystem.not_expected == queue.names(KEPT_SEGMENTS, 18)
    assert queue.filesystem.expected == []


def test_a_short_queue_stays_as_it_is(queue: Queue) -> None:
    queue.fill(KEPT_SEGMENTS + 2)
    assert queue.filesystem.not_expected == []


def test_what_comes_near_the_reader_stays(queue: Queue) -> None:
    queue.fill(KEPT_SEGMENTS + 2)
    queue.read(KEPT_SEGMENTS)
    queue.fill(3)
    assert queue.filesystem.not_expected == []
    queue.fill(10)
    assert queue.filesystem.not_expected != []


def test_logs_that_are_read_here_and_there_stay(queue: Queue) -> None:
    """Streams have many readers, and delayed messages no order."""
    queue.log.in_order = False
    queue.fill(20)
    assert queue.filesystem.not_expected == []


# -- reading without waiting


def test_what_is_in_memory_is_read_at_once(queue: Queue) -> None:
    queue.fill(3)
    assert queue.log.at_hand(0, 2000, queue.done)
    assert queue.filesystem.fetched == []


def test_what_is_not_is_fetched_once_and_then_read(queue: Queue) -> None:
    queue.fill(3)
    queue.filesystem.cold = True
    assert not queue.log.at_hand(0, 2000, queue.done)
    queue.cache.wait()
    assert queue.called == 1
    assert queue.filesystem.fetched == [
        (queue.log.segments[0].name, SEGMENT_HEADER_SIZE, 2000 + RECORD_HEADER_SIZE)
    ]
    # It may have left memory again: somebody has to begin.
    assert queue.log.at_hand(0, 2000, queue.done)
    assert [record.sequence for record in queue.log.read(0, 2000)] == [0]
    assert not queue.log.at_hand(1, 2000, queue.done)


def test_the_end_of_the_log_is_in_memory(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "RECENT_BYTES", 5000)
    queue.fill(2)
    for _ in range(8):
        queue.log.append(queue.log.next_sequence, 1000, PERSISTENT, (b"x" * 1000,))
    queue.log.write()
    queue.filesystem.cold = True
    last = queue.log.next_sequence - 1
    assert queue.log.read(last - 3, 1000)
    assert queue.log.at_hand(last - 2, 2000, queue.done)
    assert queue.log.at_hand(last + 1, 2000, queue.done)
    assert not queue.log.at_hand(last - 7, 2000, queue.done)


def test_a_reader_that_had_to_wait_asks_for_what_follows(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So far ahead, in order and without gaps, from one segment into the next, as far as they are written."""
    monkeypatch.setattr(reader_module, "AHEAD_BYTES", 4000)
    queue.fill(4)
    queue.filesystem.cold = True
    sequence = 0
    while sequence < queue.log.segments[-1].first:
        queue.log.at_hand(sequence, 2000, queue.done)
        queue.cache.wait()
        sequence = queue.log.read(sequence, 2000)[-1].sequence + 1
    expected = queue.filesystem.expected
    assert {name for name, _ in expected} == set(queue.names(0, 4))
    for name in queue.names(0, 3):
        places = [position for other, position in expected if other == name]
        assert places == sorted(set(places))
        assert all(after - before == 4000 for before, after in pairwise(places)), places


def test_a_segment_without_living_records_is_not_waited_for(queue: Queue) -> None:
    queue.fill(4)
    queue.filesystem.cold = True
    done = queue.log.segments[0]
    queue.log.ack_many(range(done.first, done.last + 1))
    assert not queue.log.at_hand(0, 2000, queue.done)
    queue.cache.wait()
    assert [name for name, *_ in queue.filesystem.fetched] == queue.names(1, 2)


def test_a_file_that_is_gone_is_no_reason_to_wait(queue: Queue) -> None:
    queue.fill(3)
    queue.filesystem.cold = True
    os.unlink(os.path.join(queue.log.directory, queue.log.segments[0].name))
    queue.log.at_hand(0, 2000, queue.done)
    queue.cache.wait()
    assert queue.called == 1
    queue.cache.fetch("/nonexistent/segment", 100, 0, queue.done)
    queue.cache.expect("/nonexistent/segment", 100, 0)
    queue.cache.let_go("/nonexistent/segment")
    queue.cache.wait()
    assert queue.called == 2


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EIO])
def test_who_cannot_be_asked_is_read_as_it_comes(queue: Queue, code: int) -> None:
    queue.fill(3)
    queue.filesystem.cold = True
    queue.filesystem.answer = OSError(code, os.strerror(code))
    assert queue.log.at_hand(0, 2000, queue.done)
    queue.filesystem.answer = None
    assert queue.log.at_hand(0, 2000, queue.done) == (code == errno.EOPNOTSUPP)  # who never can is not asked


def test_where_the_system_has_no_such_calls_all_is_read_as_it_comes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "RWF_NOWAIT")
    monkeypatch.delattr(os, "posix_fadvise")
    queue.fill(3)
    filesystem = FileSystem()
    file = filesystem.open(os.path.join(queue.log.directory, queue.log.segments[0].name))
    filesystem.advise(file, 0, 0, wanted=False)
    assert PageCache(filesystem, lambda call: call()).has(file, 100, 0)


def test_a_loop_that_is_closed_is_not_told(tmp_path: Path) -> None:
    def closed(*_: object) -> None:
        raise RuntimeError("the loop is closed")

    cache = PageCache(FileSystem(), closed)
    cache.fetch(str(tmp_path), 1, 0, print)
    cache.fetch(__file__, 1, 0, print)
    cache.wait()
    cache.close()


def test_the_kernel_lets_go_of_it_and_brings_it_back(tmp_path: Path) -> None:
    """The real thing, where the file system has a page cache that can be asked."""
    filesystem = FileSystem()
    path = str(tmp_path / "file")
    file = filesystem.open(path, create=True)
    filesystem.write_at(file, b"x" * SIZE, 0)
    filesystem.sync(file)
    assert is_cached(filesystem, file)
    filesystem.advise(file, 0, 0, wanted=False)
    if is_cached(filesystem, file):
        pytest.skip("this file system keeps its files in memory")
    filesystem.advise(file, 0, 0, wanted=True)
    called = threading.Event()
    cache = PageCache(filesystem, lambda call: call())
    cache.fetch(path, SIZE, 0, called.set)
    assert called.wait(60)
    assert is_cached(filesystem, file)
    cache.close()


def is_cached(filesystem: FileSystem, file: File) -> bool:
    try:
        return filesystem.is_cached(file, SIZE, 0)
    except OSError as error:
        pytest.skip(f"this file system does not tell: {error}")
