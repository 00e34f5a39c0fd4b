"""A lease: messages taken from a queue, in order, that stay on disk and can be read until somebody decides.

`settle` acks them all, `release` gives them all back; until then they are out, as with a consumer, but with
nobody in particular: the lease has a name, outlives connections and restarts, and ends by itself when its
time is over. A message's number in its lease never changes, so parts can be read by many, again and again.

Settling is one durable step. The definition of the lease says "settled" before the first ack is written; a
broker that dies in between goes on with the acks when it starts.

A lease that was released, all of whose messages were on disk, is remembered by its runs: as long as these
messages are still in the queue, exactly they can be taken again under its name.

What is on disk is kept as runs of sequences only; messages that are not are kept in memory and end with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from embermq.broker.level import Entry, Level
from embermq.broker.message import Message
from embermq.broker.message_record import message_of
from embermq.broker.piecework import Pieces
from embermq.broker.returned import PIECE_COUNT, body_bytes_of, untouched
from embermq.store.stream import is_alive

if TYPE_CHECKING:
    from embermq.broker.lease_reading import LeaseReading
    from embermq.broker.queue import Queue

OPEN, SETTLED, RELEASED = "open", "settled", "released"
KIND = "lease"  # of definitions
MESSAGES_MAX, BYTES_MAX = 1_000_000, 1024 * 1024 * 1024  # of bodies
TIMEOUT_MS_MAX = 30 * 24 * 3600 * 1000
RUNS_MAX = 10_000  # a queue with more holes than that gives smaller leases
READ_BYTES = 256 * 1024
SETTLED_MESSAGE = Message(b"", b"", 0, False, 0, 0)  # what it was matters no more


class Run:
    """Messages of one level without a gap: number `base` + i has the sequence `first` + i."""

    __slots__ = ("base", "count", "entries", "first", "level")

    def __init__(self, level: Level, first: int, count: int, base: int, entries: list[Entry] | None) -> None:
        self.level = level
        self.first = first
        self.count = count
        self.base = base
        self.entries = entries  # None: they are on disk

    @property
    def stop(self) -> int:
        return self.first + self.count


class Lease:
    def __init__(self, queue: Queue, name: str, created_ms: int, expires_ms: int) -> None:
        self.queue = queue
        self.name = name
        self.created_ms = created_ms
        self.expires_ms = expires_ms  # 0: never
        self.state = OPEN
        self.being_made = True  # messages are still being taken
        self.is_old = False  # and that has been told
        self.runs: list[Run] = []
        self.count = 0
        self.bytes = 0  # of the bodies
        self.stored_bytes = 0  # of those on disk, which count as out
        self.readings: set[LeaseReading] = set()

    # -- taking

    def take(self, count_max: int, bytes_max: int) -> bool:
        """Take up to so many messages from the head of the queue; False when no more can be had."""
        for _ in range(count_max):
            if self.bytes >= bytes_max or len(self.runs) >= RUNS_MAX:
                return False
            entry = self.queue.get()
            if entry is None:
                return False
            self.add(entry)
        return True

    def add(self, entry: Entry) -> None:
        run = self.runs[-1] if self.runs else None
        in_memory = not entry.stored
        if (
            run is None
            or run.level is not entry.level
            or run.stop != entry.sequence
            or (run.entries is not None) != in_memory
        ):
            run = Run(entry.level, entry.sequence, 0, self.count, [] if in_memory else None)
            self.runs.append(run)
        run.count += 1
        if run.entries is not None:
            run.entries.append(entry)
        elif entry.returns:
            entry.level.returns[entry.sequence] = entry.returns
        size = entry.message.size - entry.message.header_size
        self.count += 1
        self.bytes += size
        self.stored_bytes += 0 if in_memory else size

    # -- reading

    def run_at(self, number: int) -> Run:
        low, high = 0, len(self.runs)
        while high - low > 1:
            middle = (low + high) // 2
            if self.runs[middle].base <= number:
                low = middle
            else:
                high = middle
        return self.runs[low]

    def end_readings(self, reason: str) -> None:
        readings, self.readings = self.readings, set()
        for reading in readings:
            reading.cut_short(reason)

    # -- the end

    def ack_pieces(self) -> Pieces:
        """The decision is safe: the messages are done with."""
        entries = chain.from_iterable(run.entries or self.stand_ins(run) for run in self.runs)
        while piece := list(islice(entries, PIECE_COUNT)):
            for entry in piece:
                self.queue.settle(entry)
            if len(piece) == PIECE_COUNT:
                yield
            if self.queue.deleted:
                return
        self.queue.correct(0, 0, 0, -self.stored_bytes)  # of the stand-ins, which have no size

    def stand_ins(self, run: Run) -> Iterator[Entry]:
        """Entries of records that nobody needs to look at any more."""
        level = run.level
        for sequence in range(run.first, run.stop):
            if level.held is not None:
                level.held.discard(sequence)
            if level.log is not None and is_alive(level.log, sequence):
                yield Entry(SETTLED_MESSAGE, level, sequence, True, True)

    def give_back(self) -> None:
        """All messages to their places, as delivered before. After an OSError nothing has happened."""
        everything = [Return(run) for run in self.runs]
        entries: list[Entry] = []
        unread_bytes = self.stored_bytes
        for each in everything:
            returned = each.carry_out()
            if each.run.entries is None:
                unread_bytes -= body_bytes_of(returned)
            entries += returned
        self.queue.correct(0, 0, 0, -unread_bytes)
        self.queue.requeue(entries, untouched)

    def cut_off(self) -> None:
        """Sequences that a power cut has taken with their messages will be those of others."""
        for run in self.runs:
            run.count = min(run.count, max(run.level.next_sequence - run.first, 0))

    @property
    def key(self) -> tuple[str, str, str]:
        return KIND, self.queue.id, self.name

    def body(self) -> dict[str, Any]:
        """What the catalog keeps."""
        runs = [
            [run.level.log_id, run.first, run.count, run.base] for run in self.runs if run.entries is None
        ]
        return {
            "state": self.state,
            "created_ms": self.created_ms,
            "expires_ms": self.expires_ms,
            "count": self.count,
            "bytes": self.bytes,
            "stored_bytes": self.stored_bytes,
            "runs": runs,
        }


class Return:
    """What a run gives back: read here, done in a second step."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ahead: list[int] = []  # what the queue has not come to since its start, and stays on disk
        level, rest = run.level, run
        if run.entries is None and level.held is not None:
            # Only before others that are on disk: what stands in the ring must not be overtaken.
            begin = max(run.first, level.paged_from) if level.paged_count else run.stop
            self.ahead = [sequence for sequence in range(begin, run.stop) if sequence in level.held]
            rest = Run(level, run.first, min(max(begin - run.first, 0), run.count), run.base, None)
        self.ahead_bytes = missed_bytes(level, self.ahead)
        self.records = list(records_of(rest)) if run.entries is None else []

    def carry_out(self) -> list[Entry]:
        """Let go of what is on disk ahead; the others as entries."""
        run, level = self.run, self.run.level
        if run.entries is not None:
            return run.entries
        level.paged_count += len(self.ahead)
        level.queue.correct(len(self.ahead), self.ahead_bytes, -len(self.ahead))
        if level.held is not None:
            level.held.difference_update(range(run.first, run.stop))
        return [level.entry_of(record) for record in self.records]


def missed_bytes(level: Level, sequences: list[int]) -> int:
    """The bodies of those that were out when the messages around them were weighed (see `weighing`)."""
    missed = {sequence for sequence in sequences if sequence >= level.unweighed_below}
    if not missed:
        return 0
    around = Run(level, min(missed), max(missed) + 1 - min(missed), 0, None)
    messages = (
        message_of(record.payload, record.flags) for record in records_of(around) if record.sequence in missed
    )
    return sum(message.size - message.header_size for message in messages)


def records_of(run: Run) -> Iterator[Any]:
    if run.count == 0 or run.level.log is None:
        return
    reader = run.level.log.new_reader()
    sequence = run.first
    while sequence < run.stop:
        records = reader.read(sequence, READ_BYTES)
        for record in records:
            if record.sequence >= run.stop:
                return
            yield record
            sequence = record.sequence + 1
        if not records:
            return
