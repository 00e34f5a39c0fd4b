"""Taking ready messages out of the middle of a queue, and putting them back if it must be.

What is taken out is no longer ready, but its record stays on disk until `Level.forget`: until then a crash
brings it back. Records behind the ring's window are noted in `level.held`, so that the ring is not filled
with them in the meantime.
"""

from __future__ import annotations

from embermq.broker.queue.browse import Seen
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.requeue import bring
from embermq.broker.queue.ring import Ring


def withdraw(queue: Queue, found: list[Seen]) -> list[Entry]:
    """Take these out, in their order. They must be as they were seen: nothing has happened since."""
    by_level: dict[Level, list[Seen]] = {}
    for seen in found:
        by_level.setdefault(seen.level, []).append(seen)
    entries: list[Entry] = []
    for level, wanted in by_level.items():
        from_memory(level, {seen.sequence for seen in wanted if seen.entry is not None})
        for seen in wanted:
            size = seen.message.size - seen.message.header_size
            if seen.entry is not None:
                entries.append(seen.entry)
            else:
                entries.append(from_log(level, seen))
                if seen.sequence < level.unweighed_below:
                    size = 0  # it never counted
            queue.correct(-1, -size)
    return entries


def from_memory(level: Level, sequences: set[int]) -> None:
    if not sequences:
        return
    if level.returned is not None:
        level.returned.remove(sequences)
    kept = Ring()
    for entry in level.ring:
        if entry.sequence in sequences:
            level.ring_bytes -= entry.message.size
        else:
            kept.push_back(entry)
    level.ring = kept
    bring(level)


def from_log(level: Level, seen: Seen) -> Entry:
    if level.held is None:
        level.held = set()
    level.held.add(seen.sequence)
    level.paged_count -= 1
    entry = Entry(seen.message, level, seen.sequence, True, seen.redelivered)
    entry.expires_ms = seen.expires_ms
    return entry


def done_with(entries: list[Entry]) -> None:
    """They are safe elsewhere, or not wanted any more."""
    for entry in entries:
        entry.level.forget(entry)
        release(entry)


def put_back(queue: Queue, entries: list[Entry]) -> None:
    """They stay after all, each in its place."""
    if queue.deleted:
        return
    in_ring: list[Entry] = []
    for entry in entries:
        level = entry.level
        # Only among others that are on disk: where there are none, what came meanwhile is in the ring.
        if release(entry) and level.paged_count and entry.sequence >= level.paged_from:
            level.paged_count += 1
            size = entry.message.size - entry.message.header_size
            queue.correct(1, 0 if entry.sequence < level.unweighed_below else size)
        else:
            in_ring.append(entry)
    queue.put_back(in_ring)
    queue.mark()


def release(entry: Entry) -> bool:
    """Was it held?"""
    held = entry.level.held
    if held is None or entry.sequence not in held:
        return False
    held.remove(entry.sequence)
    if not held:
        entry.level.held = None
    return True
