"""A queue: messages waiting in order, consumers that take turns.

Invariants:
- A message is either ready (in a level) or out with a consumer (counted in `unacked_count`), never both.
- A message given back returns to its original place.
- Publishing only appends and marks; messages leave in `drain`, at the end of the turn.

The specification's two priority levels (0-4 and 5-9) exist on every queue: `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from embermq.broker.level import Entry, Level
from embermq.broker.message import Message
from embermq.broker.turn import Turn

if TYPE_CHECKING:
    from embermq.broker.storage import Storage
    from embermq.broker.vhost import VirtualHost

DRAIN_BYTES_MAX = 512 * 1024  # what one queue may hand out in one turn
DELIVERY_OVERHEAD_BYTES = 64  # frames and names around a message, roughly
HIGH_PRIORITY_MIN = 5  # 5-9 is the higher of the two levels that AMQP asks for
NOBODY = 0
PASSED_OVER_BYTES_MAX = 32 * 1024 * 1024  # how far behind messages it may not have a no-local consumer looks
HIGH_SUFFIX = ".high"  # the log of the higher level stands beside that of the lower
PRESSED_COUNT = 10_000  # ready messages past which publishers are slowed to the consumers' speed
PRESSED_BYTES = 16 * 1024 * 1024


class Consumer:
    """Somebody who takes messages from a queue; what that means is the business of a higher room."""

    __slots__ = (
        "arguments",
        "exclusive",
        "no_ack",
        "no_local_of",
        "queue",
        "tag",
        "unacked",
        "unacked_bytes",
    )

    def __init__(
        self,
        queue: Queue,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        no_local_of: int,
        arguments: dict[str, object],
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_local_of = no_local_of  # messages published by this connection are not for us; 0 = all are
        self.arguments = arguments
        self.unacked = 0  # deliveries that are out with this consumer
        self.unacked_bytes = 0

    def can_take(self, size: int) -> bool:
        """Is there credit for a message of this size now?"""
        raise NotImplementedError

    def deliver(self, entry: Entry) -> int:
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        """False while the consumer has asked for a pause."""
        return True

    def queue_deleted(self) -> None:
        """The queue is gone; the consumer with it."""
        raise NotImplementedError


class Queue:
    __slots__ = (
        "acked_count",
        "arguments",
        "auto_delete",
        "consumers",
        "deleted",
        "delivered_count",
        "dirty",
        "durable",
        "had_consumer",
        "high",
        "id",
        "keeps",
        "low",
        "name",
        "next_consumer",
        "owner",
        "published_count",
        "ready_bytes",
        "ready_count",
        "redelivered_count",
        "selective",
        "turn",
        "unacked_count",
        "vhost",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        turn: Turn,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object = None,
        arguments: dict[str, object] | None = None,
        storage: Storage | None = None,
        id: str = "",
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.turn = turn
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner  # the connection that an exclusive queue belongs to
        self.arguments = arguments or {}
        self.id = id  # names the queue's files; never used twice
        self.keeps = durable and storage is not None  # persistent messages are on disk
        self.low = Level(self, turn, durable, storage, id)
        self.high = Level(self, turn, durable, storage, id + HIGH_SUFFIX)
        self.consumers: list[Consumer] = []
        self.next_consumer = 0
        self.selective = False
        self.dirty = False
        self.deleted = False
        self.had_consumer = False
        self.ready_count = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.published_count = 0
        self.delivered_count = 0
        self.acked_count = 0
        self.redelivered_count = 0

    @property
    def exclusive(self) -> bool:
        return self.owner is not None

    # -- messages in

    def append(self, message: Message) -> int:
        """Take a message; it is delivered at the end of the turn."""
        if message.priority >= HIGH_PRIORITY_MIN:
            self.high.append(message)
        else:
            self.low.append(message)
        self.ready_count += 1
        self.ready_bytes += message.size
        self.published_count += 1
        if not self.dirty and self.consumers:
            self.dirty = True
            self.turn.add_queue(self)
        return 0

    def mark(self) -> int:
        """Something changed that may let messages leave: look again at the end of the turn."""
        if not self.dirty and self.consumers and self.ready_count:
            self.dirty = True
            self.turn.add_queue(self)
        return 0

    def requeue(self, entries: list[Entry]) -> None:
        """Messages come back from consumers, each to its original place."""
        for entry in entries:
            entry.redelivered = True
            entry.consumer = None
        self.unacked_count -= len(entries)
        if not self.deleted:
            self.put_back(entries)
            self.mark()

    def put_back(self, entries: list[Entry]) -> None:
        for level in (self.low, self.high):
            returned = [entry for entry in entries if entry.level is level]
            if returned:
                level.put_back(returned)
        for entry in entries:
            self.ready_count += 1
            self.ready_bytes += entry.message.size

    # -- messages out

    def take_head(self) -> Entry | None:
        level = self.high if self.high.front() is not None else self.low
        if level.front() is None:
            return None
        entry = level.take()
        self.ready_count -= 1
        self.ready_bytes -= entry.message.size
        return entry

    def drain(self) -> bool:
        """Hand ready messages to consumers with credit, in turn; True when the turn's share was used up."""
        if self.selective:
            return self.drain_selectively()
        budget = DRAIN_BYTES_MAX
        while self.ready_count:
            if budget <= 0:
                return True
            level = self.high
            entry = level.front()
            if entry is None:
                level = self.low
                entry = level.front()
                if entry is None:
                    return False
            size = entry.message.size
            consumer = self.pick(size)
            if consumer is None:
                return False
            level.take()
            self.ready_count -= 1
            self.ready_bytes -= size
            budget -= size + DELIVERY_OVERHEAD_BYTES
            self.hand_over(entry, consumer)
        return False

    def hand_over(self, entry: Entry, consumer: Consumer) -> int:
        self.delivered_count += 1
        if entry.redelivered:
            self.redelivered_count += 1
        if consumer.no_ack:
            self.acked_count += 1
            entry.level.forget(entry)
        else:
            entry.consumer = consumer
            self.unacked_count += 1
        consumer.deliver(entry)
        return 0

    def drain_selectively(self) -> bool:
        """The slow way of a queue with a no-local consumer: messages nobody here may have are passed over."""
        passed_over: list[Entry] = []
        budget = DRAIN_BYTES_MAX
        # What is passed over comes back next time, so it is not charged to the turn: that would never end.
        sight = PASSED_OVER_BYTES_MAX
        while self.ready_count and budget > 0 and sight > 0:
            entry = self.take_head()
            if entry is None:
                break
            message = entry.message
            willing = [
                c for c in self.consumers if c.no_local_of != message.publisher or c.no_local_of == NOBODY
            ]
            taker = next((c for c in willing if c.can_take(message.size)), None)
            if taker is not None:
                self.consumers.remove(taker)
                self.consumers.append(taker)
                budget -= message.size + DELIVERY_OVERHEAD_BYTES
                self.hand_over(entry, taker)
                continue
            passed_over.append(entry)
            sight -= message.size + DELIVERY_OVERHEAD_BYTES
            if willing:  # they only lack credit; later messages must not overtake
                break
        self.put_back(passed_over)
        return budget <= 0 and bool(self.ready_count > len(passed_over))

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

    def get(self) -> Entry | None:
        """Take one message out by hand (basic.get); the caller settles or requeues it."""
        entry = self.take_head()
        if entry is None:
            return None
        self.delivered_count += 1
        self.unacked_count += 1
        if entry.redelivered:
            self.redelivered_count += 1
        return entry

    def settle(self, entry: Entry) -> int:
        """A delivered message is done with."""
        self.unacked_count -= 1
        self.acked_count += 1
        entry.level.forget(entry)
        return 0

    def weigh(self, size: int) -> None:
        """Messages that were on disk at start have been read: now their size counts."""
        self.ready_bytes += size

    def paged_messages_lost(self, count: int) -> None:
        """The disk has fewer messages than it was given."""
        self.ready_count -= count
        self.ready_bytes = self.low.ring_bytes + self.high.ring_bytes

    def has_ready_consumer(self, message: Message) -> bool:
        """Could this message leave at once? What `immediate` asks."""
        if self.ready_count:
            return False
        for consumer in self.consumers:
            local = consumer.no_local_of != NOBODY and consumer.no_local_of == message.publisher
            if not local and consumer.can_take(message.size):
                return True
        return False

    def is_pressed(self, half: bool = False) -> bool:
        """Have messages piled up before consumers, past the mark (or half of it)?"""
        if not self.consumers:
            return False
        if half:
            return self.ready_count > PRESSED_COUNT // 2 or self.ready_bytes > PRESSED_BYTES // 2
        return self.ready_count > PRESSED_COUNT or self.ready_bytes > PRESSED_BYTES

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self.had_consumer = True
        self.selective = any(c.no_local_of != NOBODY for c in self.consumers)
        self.mark()

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.selective = any(c.no_local_of != NOBODY for c in self.consumers)
        if not self.consumers and self.auto_delete and not self.deleted:
            self.vhost.delete_queue(self)

    @property
    def active_consumer_count(self) -> int:
        return sum(consumer.is_active for consumer in self.consumers)

    @property
    def has_exclusive_consumer(self) -> bool:
        return any(consumer.exclusive for consumer in self.consumers)

    # -- the whole queue

    def purge(self) -> int:
        """Forget the ready messages; those out with consumers stay. How many went."""
        count = self.low.clear() + self.high.clear()
        self.ready_count = 0
        self.ready_bytes = 0
        return count

    def recover(self, delivered_up_to: dict[str, int] | None) -> None:
        """Take over the messages that are on disk; `delivered_up_to` is by log, None after a crash."""
        for level in (self.low, self.high):
            known = None if delivered_up_to is None else delivered_up_to.get(level.log_id, 0)
            self.ready_count += level.recover(known)

    def drop(self) -> None:
        """The queue is deleted: forget everything, on disk too."""
        self.low.drop()
        self.high.drop()
        self.ready_count = self.ready_bytes = 0

    def messages(self) -> Iterable[Message]:
        """The ready messages in order, left where they are."""
        yield from self.high.messages()
        yield from self.low.messages()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} ready={self.ready_count} unacked={self.unacked_count}>"


def describe(queue: Any) -> str:
    """How error texts name a queue."""
    return f"queue '{queue.name}' in vhost '{queue.vhost.name}'"
