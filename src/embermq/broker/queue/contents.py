"""The ready messages of a level in order, left where they are: in memory first, then in its log."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embermq.broker.message.record import message_of
from embermq.broker.queue.requeue import body_bytes_of, by_sequence

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.level import Entry, Level

READ_BYTES = 512 * 1024


def in_memory(level: Level, first: int = 0) -> Iterator[Entry]:
    """The entries from a sequence on."""
    if level.returned is None:
        return in_ring(level, first)
    return heapq.merge(in_ring(level, first), level.returned.in_order(first), key=by_sequence)


def in_ring(level: Level, first: int) -> Iterator[Entry]:
    ring = level.ring
    low, high = 0, ring.count
    while low < high:
        middle = (low + high) // 2
        if ring.at(middle).sequence < first:
            low = middle + 1
        else:
            high = middle
    return (ring.at(index) for index in range(low, ring.count))


def memory_bytes(level: Level) -> int:
    """The bodies of those in memory."""
    return body_bytes_of(level.ring) + (0 if level.returned is None else level.returned.body_bytes)


def messages(level: Level) -> Iterator[Message]:
    for entry in in_memory(level):
        yield entry.message
    sequence, left = level.paged_from, level.paged_count
    while left:
        assert level.log is not None
        records = level.log.new_reader().read(sequence, READ_BYTES)
        for record in records:
            sequence = record.sequence + 1
            if level.held is None or record.sequence not in level.held:
                yield message_of(record.payload, record.flags)
                left -= 1
        if not records:
            return
