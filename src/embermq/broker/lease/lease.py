"""A lease: messages taken from a queue, in order, that stay on disk and can be read until it is settled or
released.

`settle` acks them all, `release` gives them all back; until then they are out, as with a consumer, but with
no connection: the lease has a name, outlives connections and restarts, and ends by itself when its
time is over. A message's number in its lease never changes, so parts can be read by many, again and again.

Settling is one durable step. The definition of the lease says "settled" before the first ack is written; a
broker that dies in between goes on with the acks when it starts.

A lease that was released, all of whose messages were on disk, is remembered by its runs: as long as these
messages are still in the queue, exactly they can be taken again under its name.

What is on disk is kept as runs of sequences only; messages that are not are kept in memory and end with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from embermq.broker.incremental_work import Pieces
from embermq.broker.message.message import Message
from embermq.broker.message.record import message_of
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.requeue import PIECE_COUNT
from embermq.broker.queue.runs import SortedRuns, body_bytes_of, by_sequence
from embermq.store.log.record import Record
from embermq.store.log.retention import is_alive

if TYPE_CHECKING:
    from embermq.broker.lease.reader import LeaseReading
    from embermq.broker.queue.queue import Queue

OPEN, SETTLED, RELEASED = "open", "settled", "released"
KIND = "lease"  # of definitions
MESSAGES_MAX, BYTES_MAX = 1_000_000, 1024 * 1024 * 1024  # of bodies
TIMEOUT_MS_MAX = 30 * 24 * 3600 * 1000
RUNS_MAX = 10_000  # a queue with more holes than that gives smaller leases
READ_BYTES = 32 * 1024  # of the log in one piece
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
        self.being_released = False  # they are on their way back; on disk the lease is what it was
        self.is_old = False  # and that has been logged
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
        else:
            entry.level.remember_returns(entry)
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
        """Entries whose records are not needed any more."""
        level = run.level
        for sequence in range(run.first, run.stop):
            level.release((sequence,))
            if level.log is not None and is_alive(level.log, sequence):
                yield Entry(SETTLED_MESSAGE, level, sequence, True, True)

    def give_back(self) -> Pieces:
        """All messages to their places, as delivered before: read in pieces, there all at once.

        Until then, and after an OSError, nothing has happened. Of a deleted queue nothing comes back.
        """
        returning = Returning(self)
        try:
            for _ in returning.gather():
                yield
                if self.queue.deleted:
                    return
        except BaseException:
            returning.undo()
            raise
        returning.arrive()

    def cut_off(self) -> None:
        """Sequences that a power cut has taken with their messages will be those of others."""
        for run in self.runs:
            run.count = min(run.count, max(run.level.next_sequence - run.first, 0))

    @property
    def key(self) -> tuple[str, str, str]:
        return KIND, self.queue.id, self.name

    def body(self) -> dict[str, Any]:
        """The body of its definition."""
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


class Piece:
    """Some messages of a run as they were read, without one of others between them."""

    __slots__ = ("first", "level", "records", "sizes", "stop")

    def __init__(self, level: Level, records: list[Record]) -> None:
        self.level = level
        self.records = records
        self.first = records[0].sequence
        self.stop = records[-1].sequence + 1

    def is_reached(self) -> bool:
        """Has the queue, which passes over it since its start, come to its end?"""
        return self.level.paged_count == 0 or self.stop <= self.level.paged_from

    def entries(self) -> list[Entry]:
        entries = [self.level.entry_of(record) for record in self.records]
        for entry in entries:
            entry.redelivered = True
        return entries

    def measure(self) -> None:
        """Note the sizes of the bodies, so that `stay` need not read each."""
        messages = (message_of(record.payload, record.flags) for record in self.records)
        self.sizes = [message.size - message.header_size for message in messages]

    def stay(self) -> None:
        """On disk, and ready. Those count that were out when others were measured (`byte_accounting`)."""
        level, count = self.level, len(self.records)
        unmeasured = 0
        if level.unmeasured_below > self.first:
            unmeasured = bisect_left(self.records, level.unmeasured_below, key=by_sequence)
        level.stay_on_disk(self.first, count)
        level.queue.correct(count, sum(self.sizes[unmeasured:]), -count)
        self.let_go()

    def let_go(self) -> None:
        """It is no longer kept from the queue."""
        self.level.release(range(self.first, self.stop))


class Returning:
    """The messages of a lease on their way back to the queue.

    Most stand beside the ring in the end (see `returned`). Those that the queue has not come to since its
    start are on disk among others that are ready, and stay there: in memory they would overtake them.
    """

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.runs: dict[Level, SortedRuns] = {}
        self.ahead: list[Piece] = []
        self.unread_bytes = lease.stored_bytes

    def gather(self) -> Pieces:
        by_level: dict[Level, list[Run]] = {}
        for run in self.lease.runs:
            if run.entries is None:
                by_level.setdefault(run.level, []).append(run)
            else:
                yield from self.gather_memory(run.level, run.entries)
        for level, runs in by_level.items():
            for piece in pieces_of(level, runs):
                if piece is None:
                    yield
                elif piece.is_reached():
                    self.add(piece)
                else:
                    piece.measure()
                    self.ahead.append(piece)
        while reached := [piece for piece in self.ahead if piece.is_reached()]:
            # The queue has come to them meanwhile.
            self.ahead = [piece for piece in self.ahead if not piece.is_reached()]
            for piece in reached:
                self.add(piece)
                yield

    def gather_memory(self, level: Level, entries: list[Entry]) -> Pieces:
        for start in range(0, len(entries), PIECE_COUNT):
            if start:
                yield
            piece = entries[start : start + PIECE_COUNT]
            for entry in piece:
                entry.redelivered = True
            self.runs.setdefault(level, SortedRuns()).add(piece)

    def add(self, piece: Piece) -> None:
        entries = piece.entries()
        self.unread_bytes -= body_bytes_of(entries)
        self.runs.setdefault(piece.level, SortedRuns()).add(entries)
        piece.let_go()

    def undo(self) -> None:
        """They are not taken from the disk after all."""
        for level, runs in self.runs.items():
            for _, run in runs.heap:
                for entry in run:
                    level.remember_returns(entry)

    def arrive(self) -> None:
        """All are read, and nothing has happened since."""
        queue = self.lease.queue
        for piece in self.ahead:
            if piece.first < piece.level.paged_from:
                self.add(piece)  # the queue has come to its middle; what is on disk begins behind it
                piece.level.begin_behind(piece.stop - 1)
            else:
                piece.stay()
        queue.correct(0, 0, 0, -self.unread_bytes)
        for level, runs in self.runs.items():
            level.take_back(runs)
        queue.returned()


def pieces_of(level: Level, runs: list[Run]) -> Iterator[Piece | None]:
    """What the log has of them; None before each time that the disk is read, but for the first."""
    if level.log is None:
        return
    reader = level.log.new_reader()
    block: list[Record] = []
    for run in runs:
        sequence = run.first
        while sequence < run.stop:
            if not block or not block[0].sequence <= sequence <= block[-1].sequence:
                if block:
                    yield None
                block = reader.read(sequence, READ_BYTES)
                if not block:
                    break
            begin, end = (bisect_left(block, bound, key=by_sequence) for bound in (sequence, run.stop))
            if begin < end:
                yield Piece(level, block[begin:end])
            sequence = block[-1].sequence + 1
