"""What the disk has lost of a queue's messages, found by whoever came across the damage.

The log has told people and forgotten the records. Here the queue's numbers follow: limits must not count
messages that nobody will ever get. How large those were nobody knows; so what is on disk is weighed anew, as
after a start (see weighing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.queue.contents import memory_bytes

if TYPE_CHECKING:
    from embermq.broker.queue.level import Level
    from embermq.store.log.log import Log


def recount(level: Level) -> None:
    """The level's log has lost records; some of them may have been in memory, too, or out with consumers."""
    if level.paged_count and level.log is not None:
        held = sum(1 for sequence in level.held or () if sequence >= level.paged_from)
        left = max(alive_from(level.log, level.paged_from) - held, 0)
        if left != level.paged_count:
            have_left(level, left)


def have_left(level: Level, count: int) -> None:
    """So many of the messages that are only on disk."""
    queue = level.queue
    lost, level.paged_count = level.paged_count - count, count
    queue.correct(-lost, sum(memory_bytes(each) for each in queue.levels) - queue.ready_bytes)
    for each in queue.levels:
        each.unweighed_below = each.next_sequence if each.paged_count else 0
    if queue.rules is not None:
        queue.rules.look_at(queue.turn.now_ms)


def alive_from(log: Log, first: int) -> int:
    """Records that are not acked, from a sequence on."""
    count = 0
    for segment in log.segments:
        if segment.first >= first:
            count += segment.live.count
        elif segment.last >= first:
            count += sum(segment.live.has(sequence) for sequence in range(first, segment.last + 1))
    return count
