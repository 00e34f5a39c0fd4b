"""What the page cache is told of a long log: its beginning is read next, what is far behind it is not."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from embermq.store import read_ahead
from embermq.store.background import Background
from embermq.store.disk import Disk
from embermq.store.filesystem import File, FileSystem
from embermq.store.log import Log
from embermq.store.record import PERSISTENT, RECORD_HEADER_SIZE
from embermq.store.stream import BlockReader

SEGMENT_BYTES = 10_000
KEPT_SEGMENTS = 5


class Watched(FileSystem):
    """Remembers what it was told, by the names of the files."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.not_expected: list[str] = []

    def expect_reads(self, file: File, expected: bool) -> None:
        super().expect_reads(file, expected)
        (self.expected if expected else self.not_expected).append(os.path.basename(file.path))


class Queue:
    """A log as a queue has it."""

    def __init__(self, directory: Path) -> None:
        self.filesystem = Watched()
        self.disk = Disk(self.filesystem, str(directory / "trash"))
        self.log = Log.open(str(directory / "log"), self.disk, SEGMENT_BYTES)
        self.log.in_order = True

    def fill(self, segments: int) -> None:
        end = len(self.log.segments) + segments
        while len(self.log.segments) < end:
            self.log.append(self.log.next_sequence, 1000, PERSISTENT, (b"x" * 1000,))
            self.log.write()
        self.disk.wait_expected()

    def read(self, segments: int) -> None:
        """So many from the beginning, whole, in small pieces."""
        sequence = self.log.first_sequence
        while sequence <= self.log.segments[segments - 1].last:
            sequence = self.log.read(sequence, 2000)[-1].sequence + 1
        self.disk.wait_expected()

    def names(self, begin: int, end: int) -> list[str]:
        return [segment.name for segment in self.log.segments[begin:end]]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    # The last record of a segment reaches beyond its size.
    monkeypatch.setattr(read_ahead, "KEPT_BYTES", KEPT_SEGMENTS * (SEGMENT_BYTES + 1000))
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


def test_a_reader_asks_for_the_next_segment_once(queue: Queue) -> None:
    queue.fill(10)
    queue.read(4)
    assert queue.filesystem.expected == queue.names(1, 5)


def test_who_reads_a_stream_in_blocks_asks_too(queue: Queue) -> None:
    """Each reader for itself, unless it finds the block that another has read."""
    queue.fill(10)
    readers = [BlockReader(queue.log) for _ in range(2)]
    sequence = 0
    while sequence <= queue.log.segments[3].last:
        known = None
        for reader in readers:
            found = reader.block(sequence, 1100, known)
            assert found is not None
            known, at = found
            reader.went_on(known.position + at + RECORD_HEADER_SIZE + 1000, sequence + 1)
        sequence += 1
    queue.disk.wait_expected()
    assert queue.filesystem.expected == queue.names(1, 5)


def test_hints_that_were_not_given_yet_can_be_forgotten() -> None:
    """A stop does not wait for them."""
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []
    hints = Background("test-hints")
    hints.put(lambda: (begun.set(), may_end.wait(60), done.append("first")))
    hints.put(lambda: done.append("second"))
    assert begun.wait(60)
    hints.forget()
    may_end.set()
    hints.close()
    assert done == ["first"]
    hints.put(lambda: done.append("third"))
    hints.close()
    assert done == ["first", "third"]


def test_the_first_message_alone_asks_for_nothing(queue: Queue) -> None:
    queue.fill(10)
    assert queue.log.new_reader().read(0, 100)
    queue.disk.wait_expected()
    assert queue.filesystem.expected == []


def test_what_is_being_written_and_what_is_acked_is_not_asked_for(queue: Queue) -> None:
    queue.fill(4)
    done = queue.log.segments[1]
    queue.log.ack_many(range(done.first, done.last + 1))
    queue.read(3)
    assert done.name not in queue.filesystem.expected
    assert queue.log.segments[-1].name not in queue.filesystem.expected


def test_a_file_that_is_gone_harms_nobody(queue: Queue) -> None:
    queue.disk.expect_reads("/nonexistent/segment", True)
    queue.disk.wait_expected()
    queue.fill(2)
    assert queue.log.read(0)


def test_the_kernel_lets_go_of_it_and_brings_it_back(tmp_path: Path) -> None:
    """The real thing, where the file system has a page cache that can be asked."""
    filesystem = FileSystem()
    path = str(tmp_path / "file")
    file = filesystem.open(path, create=True)
    filesystem.write_at(file, b"x" * 1_000_000, 0)
    filesystem.sync(file)
    filesystem.expect_reads(file, False)
    if in_page_cache(file):
        pytest.skip("this file system keeps its files in memory")
    filesystem.expect_reads(file, True)
    for _ in range(10_000):
        if in_page_cache(file):
            return
        os.sched_yield()
    filesystem.read_at(file, 1, 500_000)
    assert in_page_cache(file)


def in_page_cache(file: File) -> bool:
    """Is the middle of it there, without reading from the disk?"""
    try:
        return os.preadv(file.descriptor, [bytearray(1)], 500_000, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
