"""The bytes of messages that nobody has read since the start: for a queue with a limit in bytes, and for
people who look at it.

Weighed in pieces, from the end towards the head: what is on disk before `level.unweighed_below` is not in
`queue.ready_bytes` yet, and whoever reads it first, to weigh it or to deliver it, adds it. Until then people
are told about how much that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.message.record import META, body_size
from embermq.store.log.peek import glimpses
from embermq.store.log.record import RECORD_HEADER_SIZE, SEGMENT_HEADER_SIZE

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.level import Level
    from embermq.broker.queue.queue import Queue

PIECE_BYTES = 128 * 1024
BESIDE_BODY_BYTES = RECORD_HEADER_SIZE + META.size + 2 + 15  # in a record: names, a content header, at least


def is_unweighed(queue: Queue) -> bool:
    return any(level.unweighed_below for level in queue.levels)


def bytes_to_tell(queue: Queue) -> int:
    """The bytes of the bodies that are ready; about so many, if some were not weighed yet."""
    return queue.ready_bytes + sum(unweighed_bytes(level) for level in queue.levels)


def unweighed_bytes(level: Level) -> int:
    if not has_unweighed(level):
        return 0
    assert level.log is not None
    last = level.log.segments[-1]
    bytes_each = (last.size - SEGMENT_HEADER_SIZE) // max(last.count, 1) - BESIDE_BODY_BYTES
    unweighed, all_paged = level.unweighed_below - level.paged_from, level.next_sequence - level.paged_from
    return max(bytes_each, 0) * (level.paged_count * unweighed // all_paged)


def weigh_soon(queue: Queue) -> None:
    """Somebody looks at this queue. One at a time: who is not weighed now is when it is looked at again."""
    incremental_work = queue.turn.incremental_work
    if is_unweighed(queue) and not any(work.about is weigh_pieces for work in incremental_work.works):
        incremental_work.begin(weigh_pieces(queue), about=weigh_pieces)


def weigh_pieces(queue: Queue) -> Pieces:
    """Whatever happens to the queue between two pieces."""
    for level in queue.levels:
        while has_unweighed(level):
            weigh_last(level)
            yield
        level.unweighed_below = 0


def has_unweighed(level: Level) -> bool:
    return level.log is not None and level.paged_count > 0 and level.paged_from < level.unweighed_below


def weigh_last(level: Level) -> None:
    """A piece of those that are not weighed, the last of them."""
    log, below, held = level.log, level.unweighed_below, level.held or ()
    assert log is not None
    bytes_each = max(log.bytes_on_disk // max(log.count, 1), 1)
    first = max(level.paged_from, below - max(PIECE_BYTES // bytes_each, 1))
    body_bytes = 0
    for seen in glimpses(log, first, PIECE_BYTES, tells=True):
        if seen is not None and seen.sequence >= below:
            break
        if seen is not None and seen.sequence not in held:
            body_bytes += body_size(seen)
    if level.unweighed_below != below:
        return  # damage was found: all is to be weighed again (see loss)
    level.unweighed_below = first
    level.queue.correct(0, body_bytes)
