"""Browsing the ready messages of a queue: nothing is taken, counted or marked.

A place names a message by its level and sequence; browsing begins at a place and goes on in the order in
which messages would leave. It reads memory by index and the log by blocks, so the deepest queue can be paged
through with a bounded piece of work per page. A stream is a log only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from embermq.broker.message.message import Message, expiry_of
from embermq.broker.message.record import message_of
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.queue import Queue

READ_BYTES = 64 * 1024  # of the log in one go
PLACE_CHARACTERS_MAX = 40


class Place(NamedTuple):
    """Where to go on: a level, by what its log's name adds to the queue's, and a sequence in it."""

    level: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.level or 'low'}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """What `str` wrote; ValueError for anything else."""
        level, _, sequence = text.partition("-")
        if len(text) > PLACE_CHARACTERS_MAX or not sequence.isascii() or not sequence.isdigit():
            raise ValueError(f"{text[:PLACE_CHARACTERS_MAX]!r} is no position in a queue")
        return cls("" if level == "low" else level, int(sequence))


class Seen(NamedTuple):
    """A ready message, where it stands."""

    level: Level
    sequence: int
    message: Message
    redelivered: bool
    expires_ms: int  # 0: never
    entry: Entry | None  # None: it is only on disk

    @property
    def place(self) -> Place:
        return Place(level_name(self.level), self.sequence)

    @property
    def next_place(self) -> Place:
        return Place(level_name(self.level), self.sequence + 1)


def level_name(level: Level) -> str:
    return level.log_id.removeprefix(level.queue.id).lstrip(".")


def ends_now(queue: Queue) -> dict[str, int]:
    """What is there now ends before these sequences, by level."""
    return {level_name(level): level.next_sequence for level in queue.levels}


def ready_from(
    queue: Queue, place: Place | None = None, ends: Mapping[str, int] | None = None
) -> Iterator[Seen]:
    """The ready messages from a place on (None: from the head). Valid while nothing else happens."""
    levels = list(queue.levels)
    first = 0
    if place is not None:
        names = [level_name(level) for level in levels]
        if place.level not in names:
            raise ValueError(f"queue '{queue.name}' has no position {place}")
        levels = levels[names.index(place.level) :]
        first = place.sequence
    for level in levels:
        end = level.next_sequence if ends is None else ends.get(level_name(level), 0)
        yield from ready_in(level, first, end)
        first = 0


def ready_in(level: Level, first: int, end: int) -> Iterator[Seen]:
    """Those of one level from a sequence on, up to another."""
    if first < end:
        yield from seen_in_memory(level, first, end)
        yield from in_log(level, first, end)


def seen_in_memory(level: Level, first: int, end: int) -> Iterator[Seen]:
    for entry in level.entries(first):
        if entry.sequence >= end:
            return
        yield Seen(level, entry.sequence, entry.message, bool(entry.redelivered), entry.expires_ms, entry)


def in_log(level: Level, first: int, end: int) -> Iterator[Seen]:
    if not level.paged_count and level.queue.messages_leave:
        return
    assert level.log is not None
    reader = level.log.new_reader()
    sequence = max(first, level.paged_from)
    while True:
        records = reader.read(sequence, READ_BYTES)
        if not records:
            return
        for record in records:
            if record.sequence >= end:
                return
            if not level.is_held(record.sequence):
                redelivered = level.was_delivered(
                    record.sequence, level.returns.get(record.sequence, record.flags >> 1)
                )
                message = message_of(record.payload, record.flags)
                expires_ms = expiry_of(message, level.ttl_of(record.sequence), record.timestamp_ms)
                yield Seen(level, record.sequence, message, redelivered, expires_ms, None)
        sequence = records[-1].sequence + 1
