"""A classic queue: messages leave it, each to one of its consumers, which take turns. Also quorum queues.

Invariants:
- A message is either ready (in a level) or out with a consumer (counted in `unacked_count`), never both.
- A message given back returns to its original place.
- Publishing only appends and marks; messages leave in `drain`, at the end of the turn.

The specification's two priority levels (0-4 and 5-9) exist on every queue: `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Unpack

from embermq.broker.message.message import Message
from embermq.broker.queue import features
from embermq.broker.queue.arguments import check_consumer_arguments
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.dispatch import (
    DRAIN_BYTES_MAX,
    consumer_added,
    consumer_left,
    consumer_removed,
    drain_selectively,
    is_selective,
    remove_consumers,
    selects,
)
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.max_priority import HIGH_PRIORITY
from embermq.broker.queue.queue import (
    KEEPS_NOTHING,
    KEEPS_PERSISTENT,
    Declared,
    HasFailed,
    Queue,
    describe,
    failed,
)
from embermq.broker.queue.runs import body_bytes_of
from embermq.broker.turn import Turn

if TYPE_CHECKING:
    from embermq.broker.storage import Storage
    from embermq.broker.vhost import VirtualHost

# The same under names of this module, where they are C numbers.
DRAIN_BUDGET, HIGH_PRIORITY_MIN = DRAIN_BYTES_MAX, HIGH_PRIORITY
HIGH_SUFFIX = ".high"  # the log of the higher level stands beside that of the lower
PRESSED_COUNT = 10_000  # ready messages past which publishers are slowed to the consumers' speed
PRESSED_BYTES = 16 * 1024 * 1024


class ClassicQueue(Queue):
    __slots__ = ("high", "low", "next_consumer", "selective")

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        turn: Turn,
        *,
        storage: Storage | None = None,
        **declared: Unpack[Declared],
    ) -> None:
        super().__init__(vhost, name, turn, **declared)
        self.keeps = KEEPS_PERSISTENT if self.durable and storage is not None else KEEPS_NOTHING
        self.low = Level(self, turn, self.durable, storage, self.id)
        self.high = Level(self, turn, self.durable, storage, self.id + HIGH_SUFFIX)
        self.levels = [self.high, self.low]
        self.next_consumer = 0
        self.selective = False  # does it matter which consumer gets which message?
        if features.has_rules(self.effective):
            self.rules = features.QueueRules(self)

    # -- messages in

    def append(self, message: Message) -> int:
        if self.rules is not None or message.ttl_ms >= 0:
            return self.append_by_rules(message)
        return self.accept(message, 0)

    def append_by_rules(self, message: Message) -> int:
        self.expects_expiry(0)
        assert self.rules is not None
        return self.rules.append(message)

    def accept(self, message: Message, expires_ms: int) -> int:
        """Put a message at the end of its level."""
        if message.priority >= HIGH_PRIORITY_MIN:
            return self.accept_at(self.high, message, expires_ms)
        return self.accept_at(self.low, message, expires_ms)

    def accept_at(self, level: Level, message: Message, expires_ms: int) -> int:
        level.append(message, expires_ms)
        self.ready_count += 1
        self.ready_bytes += message.size - message.header_size
        self.published_count += 1
        if not self.dirty and self.consumers:
            self.dirty = True
            self.turn.add_queue(self)
        return 0

    def mark(self) -> int:
        if not self.dirty and self.consumers and self.ready_count:
            self.dirty = True
            self.turn.add_queue(self)
        return 0

    def requeue(self, entries: list[Entry], has_failed: HasFailed = failed) -> None:
        entries = self.receive(entries, has_failed)
        self.unacked_count -= len(entries)
        self.unacked_bytes -= body_bytes_of(entries)
        self.put_back(entries)
        self.returned()

    def receive(self, entries: list[Entry], has_failed: HasFailed = failed) -> list[Entry]:
        ready = entries
        for entry in entries:
            entry.redelivered = True
        if self.rules is not None or self.deleted:
            self.unacked_bytes -= body_bytes_of(entries)
            ready = [] if self.rules is None else self.rules.returned(entries, has_failed)
            self.unacked_bytes += body_bytes_of(ready)
        for entry in entries:
            entry.consumer = None
        self.unacked_count -= len(entries) - len(ready)
        return ready

    def returned(self) -> None:
        self.turn.refresh()  # they may have expired meanwhile
        self.mark()
        if self.rules is not None:
            self.rules.after_return()

    def put_back(self, entries: list[Entry]) -> None:
        for level in self.levels:
            returned = [entry for entry in entries if entry.level is level]
            if returned:
                level.put_back(returned)
        self.ready_count += len(entries)
        self.ready_bytes += body_bytes_of(entries)
        if self.selection is not None:
            self.selection.came_back(entries)

    def ready_again(self, level: Level, first: int) -> None:
        if self.selection is not None:
            self.selection.rewind(level, first)

    # -- messages out

    def take_head(self) -> Entry | None:
        for level in self.levels:
            while level.front() is not None:
                entry = self.take_from(level)
                if entry.expires_ms == 0 or entry.expires_ms > self.turn.now_ms:
                    return entry
                self.expire(entry)
        return None

    def take_from(self, level: Level) -> Entry:
        entry = level.take()
        self.ready_count -= 1
        self.ready_bytes -= entry.message.size - entry.message.header_size
        return entry

    def expire(self, entry: Entry) -> int:
        """A message taken from the head is too old."""
        self.expects_expiry(0)
        assert self.rules is not None
        self.rules.dispose([entry], "expired")
        return 0

    def expects_expiry(self, expires_ms: int) -> int:
        if self.rules is None:
            self.rules = features.QueueRules(self)
        if expires_ms:
            self.rules.schedule_check(expires_ms)
        return 0

    def drain(self) -> bool:
        left = drain_selectively(self) if self.selective else self.drain_plainly()
        if self.rules is not None:
            self.rules.drained(left)
        return left

    def drain_plainly(self) -> bool:
        budget = DRAIN_BUDGET
        overhead = self.turn.fairness.delivery_bytes
        while self.ready_count:
            if budget <= 0:
                return True
            level = self.high
            entry = level.front_at_hand()
            if entry is None:
                if level.fetching:
                    return False
                level = self.low
                entry = level.front_at_hand()
                if entry is None:
                    return False
            size = entry.message.size
            if entry.expires_ms != 0 and entry.expires_ms <= self.turn.now_ms:
                self.expire(self.take_from(level))
                budget -= 16 * overhead  # it may become a dead letter
                continue
            consumer = self.pick(size)
            if consumer is None:
                return False
            level.take()
            self.ready_count -= 1
            self.ready_bytes -= size - entry.message.header_size
            budget -= size + overhead
            self.hand_over(entry, consumer)
        return False

    def hand_over(self, entry: Entry, consumer: Consumer) -> int:
        self.delivered_count += 1
        if entry.redelivered:
            self.redelivered_count += 1
        if consumer.no_ack:
            self.no_ack_count += 1
            entry.level.forget(entry)
        else:
            entry.consumer = consumer
            self.unacked_count += 1
            self.unacked_bytes += entry.message.size - entry.message.header_size
        consumer.deliver(entry)
        return 0

    def pick(self, size: int) -> Consumer | None:
        """The next consumer, round robin, that can take a message of this size."""
        consumers = self.consumers
        count = len(consumers)
        index = self.next_consumer
        for _ in range(count):
            if index >= count:
                index = 0
            consumer: Consumer = consumers[index]
            index += 1
            if consumer.can_take(size):
                self.next_consumer = index
                return consumer
        return None

    def get(self, no_ack: bool = False) -> Entry | None:
        entry = self.take_head()
        if self.rules is not None:
            self.rules.used()
        if entry is None:
            self.get_empty_count += 1
            return None
        self.delivered_count += 1
        if entry.redelivered:
            self.redelivered_count += 1
        if no_ack:
            self.get_no_ack_count += 1
            entry.level.forget(entry)
        else:
            self.get_count += 1
            self.unacked_count += 1
            self.unacked_bytes += entry.message.size - entry.message.header_size
        return entry

    def settle(self, entry: Entry) -> int:
        self.unacked_count -= 1
        self.unacked_bytes -= entry.message.size - entry.message.header_size
        self.acked_count += 1
        entry.level.forget(entry)
        return 0

    def discard(self, entries: list[Entry]) -> None:
        self.unacked_count -= len(entries)
        self.unacked_bytes -= body_bytes_of(entries)
        self.acked_count += len(entries)
        if self.rules is not None:
            self.rules.dispose(entries, "rejected")
            return
        self.vhost.dropped.add(self, "rejected", len(entries))
        for entry in entries:
            entry.level.forget(entry)

    def is_pressed(self, half: bool = False) -> bool:
        if not self.consumers:
            return False
        if self.selective and selects(self):
            assert self.selection is not None
            return self.selection.is_pressed(half)
        if half:
            return self.ready_count > PRESSED_COUNT // 2 or self.ready_bytes > PRESSED_BYTES // 2
        return self.ready_count > PRESSED_COUNT or self.ready_bytes > PRESSED_BYTES

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        consumer_added(self, consumer)
        self.mark()

    def remove_consumer(self, consumer: Consumer) -> None:
        consumer_removed(self, consumer)
        consumer_left(self)

    def remove_at_once(self, leaving: set[Consumer]) -> bool:
        return remove_consumers(self, leaving)

    def trace_changed(self) -> None:
        self.selective = is_selective(self)

    def check_consumer(self, arguments: Mapping[str, object], no_ack: bool, prefetch_count: int) -> None:
        check_consumer_arguments(describe(self), arguments, self.type)

    # -- the whole queue

    def effective_changed(self, effective: dict[str, object]) -> None:
        """Messages that are here keep the time to live that they had."""
        ttl_before = self.effective.get("x-message-ttl")
        self.effective = effective
        rules = self.rules
        if rules is None:
            if features.has_rules(effective):
                self.rules = features.QueueRules(self)
                self.rules.changed()
        else:
            rules.apply_effective()
            rules.changed()
            if not features.has_rules(effective) and rules.is_idle():
                rules.add_counts_to(self.vhost.past)
                self.rules = None
        if effective.get("x-message-ttl") != ttl_before:
            self.vhost.note_ttl_history(self)

    def purge(self) -> int:
        count = sum(level.clear() for level in self.levels)
        self.ready_count = self.ready_bytes = 0
        if self.selection is not None:
            self.selection.purged()
        return count

    def recover(self, delivered_up_to: dict[str, int] | None) -> None:
        if self.rules is not None:
            self.rules.before_recovery()
        for level in self.levels:
            known = None if delivered_up_to is None else delivered_up_to.get(level.log_id, 0)
            self.ready_count += level.recover(known)
            if level.head_expiry_ms():
                self.expects_expiry(level.head_expiry_ms())
        if self.rules is not None:
            self.rules.recovered()

    def messages(self) -> Iterable[Message]:
        for level in self.levels:
            yield from level.messages()
