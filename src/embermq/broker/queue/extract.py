"""Extraction of ready messages from the middle of a queue, and putting them back.

What is taken out is no longer ready, but its record stays on disk until `Level.forget`: until then a crash
brings it back.
"""

from __future__ import annotations

from embermq.broker.queue.browse import Seen
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.queue import Queue


def withdraw(queue: Queue, found: list[Seen]) -> list[Entry]:
    """Take these out, in their order. They must be as they were seen: nothing has happened since."""
    by_level: dict[Level, list[Seen]] = {}
    for seen in found:
        by_level.setdefault(seen.level, []).append(seen)
    entries: list[Entry] = []
    for level, wanted in by_level.items():
        level.remove({seen.sequence for seen in wanted if seen.entry is not None})
        for seen in wanted:
            size = seen.message.size - seen.message.header_size
            if seen.entry is not None:
                entries.append(seen.entry)
            else:
                entries.append(from_log(level, seen))
                if seen.sequence < level.unmeasured_below:
                    size = 0  # it never counted
            queue.correct(-1, -size)
    return entries


def from_log(level: Level, seen: Seen) -> Entry:
    level.take_record(seen.sequence)
    entry = Entry(seen.message, level, seen.sequence, True, seen.redelivered)
    entry.expires_ms = seen.expires_ms
    return entry


def done_with(entries: list[Entry]) -> None:
    """They are safe elsewhere, or not wanted any more."""
    for entry in entries:
        entry.level.forget(entry)
        entry.level.release((entry.sequence,))


def put_back(queue: Queue, entries: list[Entry]) -> None:
    """They stay after all, each in its place."""
    if queue.deleted:
        return
    queue.put_back(entries)
    queue.mark()
