"""What the kernel keeps of our files in memory: looked at, and brought there without holding up the loop.

Reading what is not there waits for the disk, and everybody else waits with it. So who reads in the loop's
thread looks first (`has`); what is missing is brought there by a thread of its own (`fetch`), which calls
back.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from embermq.store.disk.filesystem import File, FileSystem, read_span
from embermq.store.disk.worker import Background
from embermq.store.log.segment import Segment

if TYPE_CHECKING:
    from embermq.store.log.log import Log
    from embermq.store.log.reader import Reader

logger = logging.getLogger("embermq.store")

Callback = Callable[[], object]
PIECE_BYTES = 256 * 1024
UNABLE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class PageCache:
    """Belongs to one thread, in which callbacks are called; without a way to call back all reading waits."""

    def __init__(
        self, filesystem: FileSystem, call_soon_threadsafe: Callable[..., object] | None = None
    ) -> None:
        self.filesystem = filesystem
        self._call_soon_threadsafe = call_soon_threadsafe
        self._tells = call_soon_threadsafe is not None  # can it be asked what it has?
        self._work = Background("store-cache")

    def has(self, file: File, size: int, position: int) -> bool:
        """Can that be read without waiting? Where nobody knows, or reading fails, it may as well be."""
        if self._tells:
            try:
                return self.filesystem.is_cached(file, size, position)
            except OSError as error:
                self._tells = error.errno not in UNABLE
        return True

    def fetch(self, path: str, size: int, position: int, done: Callback) -> bool:
        """Read it in the background, then call back, whatever became of it. False: nobody can do that now."""
        return self._work.put(partial(self._fetch, path, size, position, done))

    def expect(self, path: str, size: int, position: int) -> None:
        """It will be read soon."""
        self._work.put(partial(self._advise, path, size, position, True))

    def let_go(self, path: str) -> None:
        """The file will not be read for a long time: what is safe on the disk need not be in memory."""
        self._work.put(partial(self._advise, path, 0, 0, False))

    def wait(self) -> None:
        """Return when all that was asked for is done."""
        self._work.wait()

    def close(self) -> None:
        """Nobody reads any more: what was not begun is not done."""
        self._work.forget()
        self._work.close()

    # -- in the background; with descriptors of its own, because the set of open files belongs to the loop

    def _advise(self, path: str, size: int, position: int, wanted: bool) -> None:
        self.filesystem.advise(self.filesystem.open(path, writable=False), size, position, wanted)

    def _fetch(self, path: str, size: int, position: int, done: Callback) -> None:
        assert self._call_soon_threadsafe is not None
        try:
            file = self.filesystem.open(path, writable=False)
            for begin in range(position, position + size, PIECE_BYTES):
                read_span(self.filesystem, file, min(PIECE_BYTES, position + size - begin), begin)
        except OSError as error:
            logger.debug("reading ahead in %s: %s", path, error)  # who reads it meets it again, and tells
        finally:
            try:
                self._call_soon_threadsafe(done)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more


KEPT_BYTES = 256 * 1024 * 1024  # of a queue's files, from where it is read
AHEAD_BYTES = 2 * 1024 * 1024  # that the disk is asked for before they are needed
RECENT_BYTES = 64 * 1024  # of the last segment: what was written last is in memory
LAST_SEGMENTS = 2  # one is written to, one may not be safe yet


def segment_began(log: Log) -> None:
    """A queue's log goes on in a new file: will the one that became safe meanwhile be read soon?"""
    at = len(log.segments) - 1 - LAST_SEGMENTS
    if at >= 0 and is_far_behind(log, at):
        log.disk.cache.let_go(os.path.join(log.directory, log.segments[at].name))


def is_far_behind(log: Log, at: int) -> bool:
    """Is the place where the log is read further from that segment's end than we keep?"""
    place = log.reader.segment if log.reader is not None else None
    between = 0
    while at >= 0 and between <= KEPT_BYTES:
        segment: Segment = log.segments[at]
        if segment is place:
            return False
        between += segment.size
        at -= 1
    return between > KEPT_BYTES


def at_hand(reader: Reader, segment: Segment, size: int, done: Callback) -> bool:
    """Can the reader go on in the segment without waiting for the disk? If not, the disk is asked, and `done`
    is called when it has answered; after that it is read, whatever the answer was."""
    log, position = reader.log, reader.position
    if position >= segment.written - (RECENT_BYTES if segment is log.active else 0):
        return True
    size = min(size, segment.written - position)
    place = (segment.first, position)
    if reader.fetched == place:
        keep_ahead(reader, segment, position + size)
        return True
    path = os.path.join(log.directory, segment.name)
    try:
        file = log.disk.open_file(path)
    except OSError:
        return True  # who reads it meets that again, and tells
    if log.disk.cache.has(file, size, position):
        if reader.asked_in is not None:
            keep_ahead(reader, segment, position + size)
        return True
    reader.fetched = place
    if reader.asked_in is None or reader.asked_in not in (segment, log.segment_after(segment)):
        reader.asked_in, reader.asked = segment, position + size
    if not log.disk.cache.fetch(path, size, position, done):
        return True
    keep_ahead(reader, segment, position + size)
    return False


def keep_ahead(reader: Reader, segment: Segment, position: int) -> None:
    """The reader has had to wait for the disk: have it bring what comes next while this is delivered."""
    log, asked_in = reader.log, reader.asked_in
    assert asked_in is not None
    if asked_in.first > segment.first:
        return  # of this one all is under way
    begin = max(reader.asked, position) if asked_in is segment else position
    if begin - position > AHEAD_BYTES // 2:
        return  # there is enough under way
    wanted: Segment | None = segment
    if begin >= segment.size:
        wanted, begin = log.segment_after(segment), 0
    if wanted is not None and begin < wanted.written:
        log.disk.cache.expect(os.path.join(log.directory, wanted.name), AHEAD_BYTES, begin)
        reader.asked_in, reader.asked = wanted, min(begin + AHEAD_BYTES, wanted.size)
