"""A priority queue on disk: messages in the order of the time they are due, any number in little memory.

    head    what fits nowhere else: a heap in memory, and a log that only a restart reads
    runs    logs whose records are in the order they are due; the next few of each are in memory

A message goes to the run whose last message is due just before it, otherwise to the head. (Messages that all
wait equally long so make one run, two kinds of delay make two.) A head that is full is sorted and becomes a
run. What leaves next is the least of the head and the fronts of the runs. Hence a message is written once or,
if it comes out of order, twice; memory holds a head, a window per run, and one bit for each message.

A moved message leaves the head's log when its run is safe on disk; a restart in between finds it in both, by
its number, and takes one.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from embermq.broker.delayed.record import Delayed, number_and_destination
from embermq.broker.interfaces import Logged
from embermq.store.disk.layout import new_queue_id
from embermq.store.log.record import PERSISTENT

if TYPE_CHECKING:
    from embermq.broker.storage import Storage
    from embermq.broker.turn import Turn
    from embermq.store.log.log import Log

HEAD_COUNT_MAX = 4096
HEAD_BYTES_MAX = 4 * 1024 * 1024
WRITE_COUNT = 512  # records of a new run that are gathered in memory before they are written
SOON_MS = 500  # what is due so soon stays in the head when this becomes a run
WINDOW_COUNT_MAX = 256
READ_BYTES_MAX = 64 * 1024
READ_BYTES_MIN = 4 * 1024
READ_BYTES_ALL = 2 * 1024 * 1024  # of all runs together
SCAN_BYTES = 1024 * 1024
HEAD, RUN = "head", "run"  # in the names of the logs
TRANSIENT = 0


class Part(Logged):
    """A log, as the storage wants it."""

    __slots__ = ("turn",)

    def __init__(self, turn: Turn, log: Log, log_id: str) -> None:
        super().__init__(log_id, log)
        self.turn = turn

    def mark(self) -> None:
        """The log has something to write at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)

    def append(self, delayed: Delayed) -> None:
        """Write it here; from now on this is where it is acked."""
        log = self.log
        assert log is not None
        delayed.part = self
        delayed.sequence = log.next_sequence
        log.append(
            delayed.sequence, delayed.due_ms, PERSISTENT if delayed.keeps else TRANSIENT, delayed.record()
        )
        self.mark()

    def write_some(self) -> None:
        """Not at the end of the turn: there is much, and it need not be gathered in memory."""
        assert self.log is not None
        with contextlib.suppress(OSError):  # the turn will meet it again, and report it
            self.log.write()

    def ack(self, sequence: int) -> None:
        if self.log is not None and self.log.ack(sequence):
            self.mark()

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

    def add(self, delayed: Delayed, window_max: int) -> None:
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


class Schedule:
    __slots__ = (
        "fronts",
        "heads",
        "heap",
        "heap_bytes",
        "id",
        "last_dues",
        "next_number",
        "runs",
        "storage",
        "turn",
    )

    def __init__(self, turn: Turn, storage: Storage | None, id: str) -> None:
        self.turn = turn
        self.storage = storage
        self.id = id
        # Rising over restarts, and when a virtual host is deleted and made anew, whatever is on disk.
        self.next_number = time.time_ns() >> 4
        self.heads: list[Part] = []  # none before the first message, then one; see `recover_head`
        self.heap: list[tuple[int, int, Delayed]] = []  # of the head: due, number, what
        self.heap_bytes = 0
        self.runs: list[Run] = []  # by the time their last message is due
        self.last_dues: list[int] = []  # these times
        self.fronts: list[tuple[int, int, Run]] = []  # a heap: due and number of what leaves each run next

    # -- in

    def add(self, delayed: Delayed) -> None:
        delayed.number = self.next_number
        self.next_number += 1
        if self.storage is None:
            heappush(self.heap, (delayed.due_ms, delayed.number, delayed))
            return
        at = bisect_right(self.last_dues, delayed.due_ms) - 1
        if at >= 0:
            run = self.runs[at]
            was_empty = run.front is None
            run.add(delayed, WINDOW_COUNT_MAX)
            self.last_dues[at] = delayed.due_ms
            if was_empty:
                heappush(self.fronts, (delayed.due_ms, delayed.number, run))
            return
        if not self.heads:
            log_id = self.new_log_id(HEAD)
            self.heads.append(Part(self.turn, self.storage.open_log(log_id), log_id))
        self.heads[-1].append(delayed)
        heappush(self.heap, (delayed.due_ms, delayed.number, delayed))
        self.heap_bytes += delayed.size
        if len(self.heap) >= HEAD_COUNT_MAX or self.heap_bytes >= HEAD_BYTES_MAX:
            self.make_run()

    def make_run(self) -> None:
        """Write the head to disk in order, but for what will leave soon."""
        assert self.storage is not None
        waiting = sorted(self.heap)
        soon = bisect_right(waiting, self.turn.now_ms + SOON_MS, key=lambda item: item[0])
        stay = min(soon, len(waiting) // 2)
        log_id = self.new_log_id(RUN)
        run = Run(self.turn, self.storage.open_log(log_id), log_id)
        moved: list[tuple[Part | None, int]] = []
        for _, _, delayed in waiting[stay:]:
            moved.append((delayed.part, delayed.sequence))
            run.add(delayed, 0)
            if len(moved) % WRITE_COUNT == 0:
                run.write_some()
        self.heap = waiting[:stay]  # sorted, so it is a heap
        self.heap_bytes = sum(delayed.size for _, _, delayed in self.heap)
        self.take_in(run)
        self.turn.after_safe(partial(moved_on, moved))

    def new_log_id(self, kind: str) -> str:
        """A name that no log ever had: one that was dropped may still be on its way out."""
        return f"{self.id}.{kind}-{new_queue_id()}"

    def take_in(self, run: Run) -> None:
        at = bisect_right(self.last_dues, run.last_due_ms)
        self.runs.insert(at, run)
        self.last_dues.insert(at, run.last_due_ms)
        assert run.front is not None
        heappush(self.fronts, (*run.front, run))

    # -- out

    def next_due_ms(self) -> int:
        """When something is due; 0: nothing waits."""
        dues = [first[0][0] for first in (self.heap, self.fronts) if first]
        return min(dues, default=0)

    def take_due(self, now_ms: int, count_max: int) -> list[Delayed]:
        """What is due, in order; `done` says later that it need not be kept any more."""
        taken: list[Delayed] = []
        heap, fronts = self.heap, self.fronts
        read_bytes = max(READ_BYTES_MIN, min(READ_BYTES_MAX, READ_BYTES_ALL // max(len(self.runs), 1)))
        while len(taken) < count_max:
            from_run = bool(fronts) and (not heap or fronts[0][:2] < heap[0][:2])
            first = fronts[0] if from_run else heap[0] if heap else None
            if first is None or first[0] > now_ms:
                break
            if from_run:
                run = fronts[0][2]
                try:
                    delayed = run.take(read_bytes)
                except OSError:
                    if taken:
                        break  # these are being read: the callback comes when they are there
                    raise
                if run.front is None:
                    heappop(fronts)
                else:
                    heapreplace(fronts, (*run.front, run))
                if delayed is not None:
                    taken.append(delayed)
            else:
                delayed = heappop(heap)[2]
                self.heap_bytes -= delayed.size
                taken.append(delayed)
        return taken

    def done(self, delayed: Delayed) -> None:
        part = delayed.part
        if part is None:
            return
        part.ack(delayed.sequence)
        if isinstance(part, Run) and part.front is None and part.is_empty:
            self.drop_run(part)

    def drop_run(self, run: Run) -> None:
        if run in self.runs:
            at = self.runs.index(run)
            del self.runs[at], self.last_dues[at]
        run.drop()

    # -- the whole

    def clear(self) -> None:
        """Forget everything."""
        for part in [*self.heads, *self.runs]:
            part.drop()
        self.heads, self.runs, self.last_dues, self.fronts, self.heap, self.heap_bytes = [], [], [], [], [], 0

    def log_ids(self) -> list[str]:
        return [part.log_id for part in [*self.heads, *self.runs]]

    def recover(self, found: Callable[[int, str], None]) -> None:
        """Take over what is on disk, telling the number and destination of each message."""
        assert self.storage is not None
        doubles: dict[int, Delayed] = {}
        for log_id in self.storage.log_ids(f"{self.id}.{HEAD}-"):
            doubles |= self.recover_head(log_id)
        for log_id in self.storage.log_ids(f"{self.id}.{RUN}-"):
            run = Run(self.turn, self.storage.open_log(log_id), log_id)
            self.read_run(run, doubles, found)
            if run.front is None:
                run.drop()
            else:
                self.take_in(run)
        for delayed in doubles.values():
            self.next_number = max(self.next_number, delayed.number + 1)
            found(delayed.number, delayed.destination)
        self.heap = [(delayed.due_ms, delayed.number, delayed) for delayed in doubles.values()]
        heapify(self.heap)
        self.heap_bytes = sum(delayed.size for delayed in doubles.values())

    def recover_head(self, log_id: str) -> dict[int, Delayed]:
        """The messages of a head by number. A second head is one that was dropped before a crash."""
        assert self.storage is not None
        head = Part(self.turn, self.storage.open_log(log_id), log_id)
        self.heads.append(head)
        log = head.log
        assert log is not None
        waiting: dict[int, Delayed] = {}
        sequence = log.first_sequence
        while records := log.read(sequence, SCAN_BYTES):
            for record in records:
                delayed = Delayed.of(record)
                delayed.part, delayed.sequence = head, record.sequence
                waiting[delayed.number] = delayed
            sequence = records[-1].sequence + 1
        return waiting

    def read_run(self, run: Run, doubles: dict[int, Delayed], found: Callable[[int, str], None]) -> None:
        """Look at every message of a run; those that are in the head as well leave it."""
        assert run.log is not None
        reader = run.log.new_reader()
        sequence = run.log.first_sequence
        while records := reader.read(sequence, SCAN_BYTES):
            for record in records:
                number, destination = number_and_destination(record.payload)
                if run.front is None:
                    run.front = record.timestamp_ms, number
                if number >= self.next_number:
                    self.next_number = number + 1
                double = doubles.pop(number, None) if doubles else None
                if double is not None and double.part is not None:
                    double.part.ack(double.sequence)
                found(number, destination)
            sequence = records[-1].sequence + 1


def moved_on(moved: list[tuple[Part | None, int]]) -> None:
    """They are safe in their run: the head need not remember them."""
    for head, sequence in moved:
        if head is not None:
            head.ack(sequence)
