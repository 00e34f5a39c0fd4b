"""A queue of any type: messages in order for its consumers. The types are `ClassicQueue` and `Stream`.

This is what the rest of the broker asks of a queue. A classic queue (or a quorum queue, which is of the same
class) hands each message to one consumer and forgets it when it is acknowledged; a stream keeps its messages,
and each consumer reads them at an offset of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from embermq.broker.counters import Counters
from embermq.broker.definitions import Body, packed
from embermq.broker.message.message import Message
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry, Level
from embermq.broker.turn import Turn
from embermq.errors import NotImplementedYet

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.features import QueueRules
    from embermq.broker.queue.selection import Selection
    from embermq.broker.vhost import VirtualHost

KEEPS_NOTHING, KEEPS_PERSISTENT, KEEPS_ALL = 0, 1, 2  # which messages are on disk before they are confirmed
MEASURING = object()  # what such work is about

# Did a try to process the message fail, or does it come back untouched? Only tries count for the limit.
HasFailed = Callable[[Entry], bool]


def failed(entry: Entry) -> bool:
    return True


def untouched(entry: Entry) -> bool:
    return False


class Declared(TypedDict, total=False):
    """What a queue is declared with, and where its files are."""

    durable: bool
    auto_delete: bool
    owner: object  # the connection that an exclusive queue belongs to
    arguments: dict[str, object] | None
    effective: dict[str, object] | None  # see `policy.effective`; None: the arguments
    id: str  # names the queue's files; never used twice


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
        "effective",
        "get_count",
        "get_empty_count",
        "get_no_ack_count",
        "id",
        "keeps",
        "levels",
        "messages_leave",
        "name",
        "no_ack_count",
        "owner",
        "published_count",
        "ready_bytes",
        "ready_count",
        "redelivered_count",
        "rules",
        "selection",
        "turn",
        "unacked_bytes",
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
        effective: dict[str, object] | None = None,
        id: str = "",
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.turn = turn
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments or {}  # as declared
        self.effective = self.arguments if effective is None else effective
        self.id = id
        self.keeps = KEEPS_NOTHING
        self.messages_leave = True  # when a consumer has acknowledged them
        self.levels: list[Level] = []  # in the order in which they are emptied; of a stream one, in its log
        self.rules: QueueRules | None = None  # features of a classic queue that uses any
        self.selection: Selection | None = None  # since it had consumers with a selector
        self.consumers: list[Consumer] = []
        self.dirty = self.deleted = False
        self.ready_count = self.ready_bytes = self.unacked_count = self.unacked_bytes = 0
        self.acked_count = self.published_count = self.redelivered_count = 0
        self.delivered_count = 0  # in whatever way; those without acknowledgement and by hand are also
        self.no_ack_count = self.get_count = self.get_no_ack_count = self.get_empty_count = 0

    @property
    def type(self) -> str:
        return str(self.effective.get("x-queue-type", "classic"))

    @property
    def exclusive(self) -> bool:
        return self.owner is not None

    @property
    def active_consumer_count(self) -> int:
        return sum(consumer.is_active for consumer in self.consumers)

    def cannot(self, method: str) -> NotImplementedYet:
        return NotImplementedYet(f"{method} not supported by {self.type} queues {describe(self)}")

    # -- messages in

    def append(self, message: Message) -> int:
        """Take a message, to be delivered at the end of the turn: 0. REFUSED by a queue that is full."""
        raise NotImplementedError

    def append_spans(
        self, prefix: bytes, buf: bytearray, header_at: int, header_stop: int, body_at: int, body_stop: int
    ) -> bool:
        """Append a message as it stands in the buffer that it was read into; False: `append` has to do it."""
        return False

    def mark(self) -> int:
        """Something changed that may let messages leave: drain at the end of the turn."""
        raise NotImplementedError

    def is_pressed(self, half: bool = False) -> bool:
        """Have messages piled up before consumers, past the mark (or half of it)?"""
        return False

    # -- messages out

    def drain(self) -> bool:
        """Hand ready messages to consumers with credit, in turn; True when the turn's share was used up."""
        raise NotImplementedError

    def take_head(self) -> Entry | None:
        """The message that leaves next, taken out; those that have expired leave before it."""
        return None

    def get(self, no_ack: bool = False) -> Entry | None:
        """Take one message out by hand (basic.get); the caller settles or requeues it, unless `no_ack`."""
        raise self.cannot("basic.get")

    def settle(self, entry: Entry) -> int:
        """A delivered message is done with."""
        raise NotImplementedError

    def discard(self, entries: list[Entry]) -> None:
        """Delivered messages are rejected for good."""
        raise NotImplementedError

    def requeue(self, entries: list[Entry], has_failed: HasFailed = failed) -> None:
        """Delivered messages come back, each to its original place."""
        raise NotImplementedError

    def receive(self, entries: list[Entry], has_failed: HasFailed = failed) -> list[Entry]:
        """Delivered messages come back; those that will be ready again, and still count as unacknowledged."""
        raise NotImplementedError

    def returned(self) -> None:
        """Those that `receive` answered are in their places."""

    def put_back(self, entries: list[Entry]) -> None:
        """Ready messages that were taken out, and not delivered, return to their places."""
        raise NotImplementedError

    def ready_again(self, level: Level, first: int) -> None:
        """Messages of this level, from that sequence on, have come back in another way than by `put_back`."""

    def expects_expiry(self, expires_ms: int) -> int:
        """A message here will expire; 0: it may. Those of a stream do not."""
        return 0

    def messages(self) -> Iterable[Message]:
        """The ready messages in order, left where they are."""
        raise NotImplementedError

    # -- consumers

    def check_consumer(self, arguments: Mapping[str, object], no_ack: bool, prefetch_count: int) -> None:
        """May there be a consumer with these arguments? PreconditionFailed if not."""
        raise NotImplementedError

    def add_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def remove_at_once(self, leaving: set[Consumer]) -> bool:
        """Remove those of a channel or connection that ends, where that is better than one by one;
        `consumer_left` is then due for each. False: they stay, for `remove_consumer`."""
        return False

    def trace_changed(self) -> None:
        """The firehose was turned on or off."""

    def restore_offset(self, consumer_name: str, offset: int) -> None:
        """Where the consumers of a stream with this name were before the restart."""

    # -- numbers

    def correct(self, count: int, size: int, unacked_count: int = 0, unacked_bytes: int = 0) -> None:
        """There is more (or less) here than was known, by another way than the two ends."""
        self.ready_count += count
        self.ready_bytes += size
        self.unacked_count += unacked_count
        self.unacked_bytes += unacked_bytes

    def body_bytes(self) -> int:
        """The bytes of the ready bodies; about so many while some are not measured."""
        return self.ready_bytes + sum(level.unmeasured_bytes() for level in self.levels)

    def is_unmeasured(self) -> bool:
        """Are there messages from before the start whose sizes are not known yet?"""
        return any(level.unmeasured_below for level in self.levels)

    def measure_soon(self) -> None:
        """For a request that shows the bytes. One queue at a time: others when they are shown again."""
        works = self.turn.incremental_work
        if self.is_unmeasured() and not works.about(MEASURING):
            works.begin(self.measure_pieces(), about=MEASURING)

    def measure_pieces(self) -> Pieces:
        for level in self.levels:
            yield from level.measure_pieces()

    def offset_facts(self, time_ms: int | None = None) -> dict[str, object]:
        """Of a stream: its first offset, its next one, its segments; the first offset since a time."""
        return {}

    def add_counts_to(self, counters: Counters) -> None:
        counters.published += self.published_count
        counters.delivered += self.delivered_count
        counters.delivered_no_ack += self.no_ack_count
        counters.got += self.get_count
        counters.got_no_ack += self.get_no_ack_count
        counters.got_empty += self.get_empty_count
        counters.acked += self.acked_count
        counters.redelivered += self.redelivered_count
        if self.rules is not None:
            self.rules.add_counts_to(counters)

    # -- the whole queue

    def definition(self) -> Body:
        history = {level.log_id: level.ttl_history for level in self.levels if level.ttl_history}
        more: Body = {"ttl_history": history} if history else {}
        if self in self.vhost.templated:
            more["template"] = packed(self.vhost.templated[self])
        return {"id": self.id, "auto_delete": self.auto_delete, **packed(self.arguments), **more}

    def label(self) -> bytes:
        """What the queue's directory says about itself; nothing, if the queue ends with its broker."""
        if not self.durable:
            return b""
        label = {"vhost": self.vhost.name, "name": self.name, "definition": self.definition()}
        return json.dumps(label).encode() + b"\n"

    def has_files(self) -> bool:
        written = any(level.log is not None and level.log.has_directory for level in self.levels)
        return written or (self.rules is not None and bool(self.rules.log_ids()))

    def effective_changed(self, effective: dict[str, object]) -> None:
        """Policies say something else than before."""
        raise NotImplementedError

    def purge(self) -> int:
        """Forget the ready messages; those out with consumers stay. How many went."""
        raise self.cannot("queue.purge")

    def recover(self, delivered_up_to: dict[str, int] | None) -> None:
        """Take over the messages on disk; `delivered_up_to` is by log, None after a crash."""
        raise NotImplementedError

    def drop(self) -> None:
        """The queue is deleted: forget everything, on disk too."""
        for level in self.levels:
            level.drop()
        self.ready_count = self.ready_bytes = 0

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} ready={self.ready_count} unacked={self.unacked_count}>"


def describe(queue: Any) -> str:
    """How error texts name a queue."""
    return f"queue '{queue.name}' in vhost '{queue.vhost.name}'"
