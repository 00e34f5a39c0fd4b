"""The reader of a part of a lease: what its consumer has in place of a queue.

It asks for a turn of its own, so that the queue itself knows nothing of readers. Deliveries need no
acknowledgement and carry the message's number in the lease as header `x-lease-index`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from embermq.broker.lease.lease import Lease, Run
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Level
from embermq.broker.stream.cursor import Cursor
from embermq.store.log.log import Log
from embermq.store.log.retention import Block

if TYPE_CHECKING:
    from embermq.broker.queue.features import QueueRules
    from embermq.broker.vhost import VirtualHost

BUDGET = 512 * 1024  # bytes that one reader gets in one turn
INDEX_FIELD = b"\x0dx-lease-indexl"  # as it stands in a table, up to the value


class LevelLog:
    """What a cursor needs of a stream, for a level of a queue."""

    filters = None

    def __init__(self, level: Level, log: Log, mark: Callable[[], None]) -> None:
        self.low = level
        self.log = log
        self.mark = mark
        self.block: Block | None = None


class LeaseReading:
    def __init__(self, lease: Lease, begin: int, end: int) -> None:
        self.lease = lease
        self.number = begin  # the next one
        self.end = min(end, lease.count)
        self.consumer: Consumer | None = None
        self.cursor: Cursor | None = None
        self.run: Run | None = None
        self.dirty = False
        self.turn = lease.queue.vhost.turn

    # -- what a consumer's queue is asked

    @property
    def name(self) -> str:
        return self.lease.queue.name

    @property
    def vhost(self) -> VirtualHost:
        return self.lease.queue.vhost

    @property
    def effective(self) -> dict[str, object]:
        return self.lease.queue.effective

    @property
    def rules(self) -> QueueRules | None:
        return self.lease.queue.rules

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumer = consumer
        consumer.field = INDEX_FIELD
        self.lease.readings.add(self)
        self.mark()

    def remove_consumer(self, consumer: Consumer) -> None:
        self.consumer = None
        self.lease.readings.discard(self)

    def remove_at_once(self, leaving: set[Consumer]) -> bool:
        return False

    def mark(self) -> None:
        if not self.dirty and self.consumer is not None:
            self.dirty = True
            self.turn.add_queue(self)

    # -- reading

    def drain(self) -> bool:
        """Deliver the turn's share; True when there is more, and a consumer for it."""
        budget = BUDGET
        while self.consumer is not None and self.number < self.end and budget > 0:
            run = self.lease.run_at(self.number)
            if self.number >= run.base + run.count:
                self.number = self.next_base(run)  # a message that a restart has taken
                continue
            before = self.number
            budget -= self.from_memory(run) if run.entries is not None else self.from_log(run, budget)
            if self.number == before and budget > 0:
                return False  # the consumer has no room, or the disk is being read: both will mark us
        consumer = self.consumer
        if consumer is not None and self.number >= self.end:
            self.remove_consumer(consumer)
            consumer.range_delivered()
        return self.consumer is not None

    def next_base(self, run: Run) -> int:
        following = bisect_right(self.lease.runs, run.base, key=lambda other: other.base)
        return self.lease.runs[following].base if following < len(self.lease.runs) else self.end

    def from_memory(self, run: Run) -> int:
        assert run.entries is not None and self.consumer is not None
        message = run.entries[self.number - run.base].message
        if not self.consumer.can_take(message.size):
            return 0
        block = message.names + message.content
        names_size = len(message.names)
        self.consumer.deliver_stored(None, block, 0, names_size, len(block), message.header_size, self.number)
        self.number += 1
        return int(message.size)

    def from_log(self, run: Run, budget: int) -> int:
        assert self.consumer is not None
        log = run.level.log
        if log is None:
            self.number = run.base + run.count
            return 0
        if self.cursor is None or self.run is not run:
            sequence = run.first + self.number - run.base
            stop = min(run.stop, run.first + self.end - run.base)
            if self.cursor is None or self.run is None or self.run.level is not run.level:
                self.cursor = Cursor(LevelLog(run.level, log, self.mark), self.consumer, sequence, stop)
            else:
                self.cursor.go_to(sequence, stop)  # from where it is: in a lease with holes runs are short
            self.cursor.shift = run.base - run.first
            self.run = run
        used = self.cursor.deliver(budget, self.cursor.end)
        self.number = run.base + self.cursor.offset - run.first
        return used

    def cut_short(self, reason: str) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.cut_short(reason)
