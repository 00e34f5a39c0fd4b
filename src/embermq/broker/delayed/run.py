"""The logs that a schedule is made of: that of the head, and runs, whose records are in the order of time."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

from embermq.broker.delayed.record import Delayed
from embermq.broker.interfaces import Logged
from embermq.store.log.record import PERSISTENT

if TYPE_CHECKING:
    from embermq.broker.turn import Turn
    from embermq.store.log.log import Log

TRANSIENT = 0


class Part(Logged):
    """A log, as the storage wants it."""

    __slots__ = ("turn",)

    def __init__(self, turn: Turn, log: Log, log_id: str) -> None:
        super().__init__(log_id, log)
        self.turn = turn

    def mark(self) -> int:
        """The log has something to write at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)
        return 0

    def append(self, delayed: Delayed) -> int:
        """Write it here; from now on this is where it is acked."""
        log = self.log
        assert log is not None
        delayed.part = self
        delayed.sequence = log.next_sequence
        log.append(
            delayed.sequence, delayed.due_ms, PERSISTENT if delayed.keeps else TRANSIENT, delayed.record()
        )
        self.mark()
        return 0

    def write_some(self) -> None:
        """Not at the end of the turn: there is much, and it need not be gathered in memory."""
        assert self.log is not None
        with contextlib.suppress(OSError):  # the turn will meet it again, and report it
            self.log.write()

    def ack(self, sequence: int) -> int:
        if self.log is not None and self.log.ack(sequence):
            self.mark()
        return 0

    @property
    def is_empty(self) -> bool:
        """Everything in it is done with."""
        return self.log is None or self.log.count == 0

    def drop(self) -> None:
        if self.log is not None:
            self.log.drop()
            self.log = None


class Run(Part):
    """Its next messages are in memory, the rest is read from the log in blocks as these go."""

    __slots__ = ("front", "last_due_ms", "unread_count", "unread_from", "window")

    def __init__(self, turn: Turn, log: Log, log_id: str) -> None:
        super().__init__(turn, log, log_id)
        self.window: deque[Delayed] = deque()
        self.unread_count = log.count
        self.unread_from = log.first_sequence
        self.last_due_ms = max((segment.time_max for segment in log.segments), default=0)
        self.front: tuple[int, int] | None = None  # (due, number) of what leaves next

    def add(self, delayed: Delayed, window_max: int) -> int:
        """Something that is not due before anything else here."""
        assert delayed.due_ms >= self.last_due_ms
        self.last_due_ms = delayed.due_ms
        self.append(delayed)
        if self.unread_count == 0 and len(self.window) < window_max:
            self.window.append(delayed)
            self.unread_from = delayed.sequence + 1
        else:
            self.unread_count += 1
        if self.front is None:
            self.front = delayed.due_ms, delayed.number
        return 0

    def take(self, read_bytes: int) -> Delayed | None:
        """What leaves next; None if it cannot be read any more, which the log has reported."""
        if not self.window:
            self.read(read_bytes)
            if not self.window:
                self.front = None
                return None
        taken = self.window.popleft()
        if not self.window:
            try:
                self.read(read_bytes)
            except OSError:
                # Too many open files, perhaps. The next `take` needs it, and tells; this one is on its way.
                self.front = taken.due_ms, taken.number  # nothing here is due before that
                return taken
        self.front = (self.window[0].due_ms, self.window[0].number) if self.window else None
        return taken

    def read(self, read_bytes: int) -> None:
        if self.unread_count == 0:
            return
        assert self.log is not None
        records = self.log.read(self.unread_from, read_bytes)
        if not records:
            self.unread_count = 0
            return
        for record in records:
            delayed = Delayed.of(record)
            delayed.part = self
            delayed.sequence = record.sequence
            self.window.append(delayed)
        self.unread_from = records[-1].sequence + 1
        self.unread_count -= len(records)
