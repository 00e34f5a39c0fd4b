"""The bytes of messages that nobody has read since the start, for a queue with a limit in bytes.

Weighed in pieces, from the end towards the head: what is on disk before `level.unweighed_below` is not in
`queue.ready_bytes` yet, and whoever reads it first, to weigh it or to deliver it, adds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.message_record import message_of

if TYPE_CHECKING:
    from embermq.broker.level import Level
    from embermq.broker.piecework import Pieces
    from embermq.broker.queue import Queue

PIECE_BYTES = 128 * 1024


def is_unweighed(queue: Queue) -> bool:
    return any(level.unweighed_below for level in queue.levels)


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
    reader = log.new_reader()
    sequence = first
    while sequence < below:
        records = [record for record in reader.read(sequence, PIECE_BYTES) if record.sequence < below]
        if not records:
            break
        for record in records:
            if record.sequence not in held:
                message = message_of(record.payload, record.flags)
                body_bytes += message.size - message.header_size
        sequence = records[-1].sequence + 1
    level.unweighed_below = first
    level.queue.correct(0, body_bytes)
