"""What the page cache holds of a long queue: the beginning, which is read next, and the end.

A queue is read in order, so what came last is needed last. The kernel believes the opposite: it keeps what
was used last, and lets go of the beginning first. So a queue whose reader is far behind says of each segment
that is full and safe that nobody will read it soon.

Whoever reads, of a queue or of a stream, does not wait for the disk: what is not in memory is fetched in the
background, and what follows it meanwhile. See docs/decisions/0017-a-backlog-and-the-page-cache.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from embermq.store.segment import Segment

if TYPE_CHECKING:
    from embermq.store.log import Log
    from embermq.store.page_cache import Callback
    from embermq.store.reader import Reader

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
