"""The receiving half of a channel: deliveries that are out, by tag, and the credit of its consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.level import Entry
from embermq.broker.queue import Queue
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.amqp.consumer import ChannelConsumer


class Deliveries:
    __slots__ = (
        "acked_count",
        "consumers",
        "delivery_tag",
        "no_ack_count",
        "prefetch_count",
        "prefetch_size",
        "shared_prefetch_count",
        "shared_prefetch_size",
        "shared_unacked",
        "shared_unacked_bytes",
        "unacked",
    )

    def __init__(self) -> None:
        self.consumers: dict[str, ChannelConsumer] = {}
        self.delivery_tag = 0  # of the last one: how many there were
        self.no_ack_count = 0  # of these, those that nobody acknowledges
        self.acked_count = 0
        self.unacked: dict[int, Entry] = {}
        self.prefetch_count = 0  # for consumers to come
        self.prefetch_size = 0
        self.shared_prefetch_count = 0  # for all consumers of the channel together
        self.shared_prefetch_size = 0
        self.shared_unacked = 0
        self.shared_unacked_bytes = 0

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[Entry]:
        """The deliveries that a tag stands for, no longer unacknowledged; tag 0 with `multiple` is all."""
        unacked = self.unacked
        entry: Entry | None
        if not multiple:
            entry = unacked.pop(delivery_tag, None)
            if entry is None:
                raise PreconditionFailed(f"unknown delivery tag {delivery_tag}")
            return [entry]
        if delivery_tag == 0:
            entries = list(unacked.values())
            unacked.clear()
            return entries
        entries = []
        if delivery_tag <= self.delivery_tag:
            for entry in unacked.values():
                if entry.delivery_tag > delivery_tag:
                    break
                entries.append(entry)
        if not entries:
            raise PreconditionFailed(f"unknown delivery tag {delivery_tag}")
        for entry in entries:
            del unacked[entry.delivery_tag]
        return entries

    def release(self, entry: Entry) -> int:
        """A delivery is no longer out: its consumer has the credit back."""
        consumer = entry.consumer
        if consumer is not None:
            size = entry.message.size
            consumer.unacked -= 1
            consumer.unacked_bytes -= size
            self.shared_unacked -= 1
            self.shared_unacked_bytes -= size
        return 0

    def settle(self, entries: list[Entry]) -> int:
        queue: Queue | None = None
        self.acked_count += len(entries)
        for entry in entries:
            self.release(entry)
            if entry.level.queue is not queue:
                if queue is not None:
                    queue.mark()
                queue = entry.level.queue
            queue.settle(entry)
        if self.shared_prefetch_count or self.shared_prefetch_size:
            self.credit_returned()
        if queue is not None:
            queue.mark()
        return 0

    def credit_returned(self) -> int:
        """Any of this channel's consumers may have credit again, each time another one first.

        Queues are served in the order in which they are marked: with a credit that all share, the same one
        first would leave nothing to the others.
        """
        for tag in self.consumers:
            self.consumers[tag] = self.consumers.pop(tag)
            break
        for consumer in self.consumers.values():
            consumer.queue.mark()
        return 0

    def requeue(self, entries: list[Entry]) -> None:
        """Give deliveries back to their queues, each to its place."""
        by_queue: dict[Queue, list[Entry]] = {}
        for entry in entries:
            self.release(entry)
            by_queue.setdefault(entry.queue, []).append(entry)
        for queue, returned in by_queue.items():
            queue.requeue(returned)
        self.credit_returned()

    def discard(self, entries: list[Entry]) -> None:
        """Rejected for good: to the dead letters of their queues, where these have such."""
        by_queue: dict[Queue, list[Entry]] = {}
        for entry in entries:
            self.release(entry)
            by_queue.setdefault(entry.queue, []).append(entry)
        for queue, rejected in by_queue.items():
            queue.discard(rejected)
            queue.mark()
        self.credit_returned()
