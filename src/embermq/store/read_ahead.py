"""What the page cache holds of a long queue: the beginning, which is read next, and the end.

A queue is read in order, so what came last is needed last. The kernel believes the opposite: it keeps what
was used last, and lets go of the beginning first. So a queue whose reader is far behind says of each segment
that is full and safe that nobody will read it soon; and a reader on its way through a log asks for the next
segment before it gets there, so that the loop does not wait for the disk. Both are hints, given in the
background: nothing depends on them but time. See docs/decisions/0017-a-backlog-and-the-page-cache.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from embermq.store.segment import Segment

if TYPE_CHECKING:
    from embermq.store.log import Log

KEPT_BYTES = 256 * 1024 * 1024  # of a queue's files, from where it is read
LAST_SEGMENTS = 2  # one is written to, one may not be safe yet


def segment_began(log: Log) -> None:
    """A queue's log goes on in a new file: will the one that became safe meanwhile be read soon?"""
    at = len(log.segments) - 1 - LAST_SEGMENTS
    if at >= 0 and is_far_behind(log, at):
        log.disk.expect_reads(os.path.join(log.directory, log.segments[at].name), False)


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


def half_read(log: Log, segment: Segment) -> None:
    """A reader is on its way to the segment behind this one."""
    following = log.segment_after(segment)
    if following is not None and following.sealed and following.live.count:
        log.disk.expect_reads(os.path.join(log.directory, following.name), True)
