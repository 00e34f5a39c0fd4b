"""The receiving half of a channel: deliveries that are out, by tag, and the credit of its consumers.

Most channels have few deliveries out: one table has them all. A consumer without a prefetch limit may be sent
millions: these are in blocks, so that a range of them can be taken out without going through it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from embermq.broker.level import Entry
from embermq.broker.queue import Queue
from embermq.broker.returned import by_queue
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.amqp.consumer import ChannelConsumer

BLOCK_COUNT = 4096  # deliveries in a block
SPARSE_COUNT = BLOCK_COUNT // 16

Blocks = list[Collection[Entry]]


class Deliveries:
    __slots__ = (
        "acked_count",
        "consumers",
        "delivery_tag",
        "no_ack_count",
        "older",
        "older_ends",
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
        self.unacked: dict[int, Entry] = {}  # the latest of them
        self.older: list[dict[int, Entry]] = []  # blocks of those before, where there are so many
        self.older_ends: list[int] = []  # the last tag that each may have
        self.prefetch_count = 0  # for consumers to come
        self.prefetch_size = 0
        self.shared_prefetch_count = 0  # for all consumers of the channel together
        self.shared_prefetch_size = 0
        self.shared_unacked = 0
        self.shared_unacked_bytes = 0

    # -- which are out

    @property
    def unacked_count(self) -> int:
        return len(self.unacked) + sum(map(len, self.older))

    def outstanding(self) -> Iterator[Entry]:
        """All that is unacknowledged, in the order of the tags; nothing may happen meanwhile."""
        for block in self.older:
            yield from block.values()
        yield from self.unacked.values()

    def begin_block(self) -> int:
        """Enough for one table: so none has to grow past all measure, or be searched from its beginning."""
        self.older.append(self.unacked)
        self.older_ends.append(self.delivery_tag)
        self.unacked = {}
        return 0

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[Entry]:
        """The deliveries that a tag stands for, no longer unacknowledged; tag 0 with `multiple` is all.

        Not for a range of which `spans_blocks` is true.
        """
        unacked = self.unacked
        entry: Entry | None
        if multiple and self.older:
            unacked = self.older[0]
        if not multiple:
            entry = unacked.pop(delivery_tag, None)
            if entry is None:
                entry = self.take_older(delivery_tag)
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
            raise unknown_tag(delivery_tag)
        for entry in entries:
            del unacked[entry.delivery_tag]
        return entries

    def spans_blocks(self, delivery_tag: int) -> bool:
        """Is the range up to this tag more than a part of one block?"""
        return bool(self.older) and (delivery_tag == 0 or delivery_tag >= self.older_ends[0])

    def take_older(self, delivery_tag: int) -> Entry:
        """A single one that is not among the latest."""
        index = bisect_left(self.older_ends, delivery_tag)
        if index == len(self.older):
            raise unknown_tag(delivery_tag)
        block: dict[int, Entry] = self.older[index]
        entry = block.pop(delivery_tag, None)
        if entry is None:
            raise unknown_tag(delivery_tag)
        if not block:
            del self.older[index], self.older_ends[index]
        elif len(block) == SPARSE_COUNT:
            self.older[index] = dict(block)  # a table keeps its size until it is copied
        return entry

    def take_blocks(self, delivery_tag: int, multiple: bool) -> Blocks:
        """What `take_unacked` answers, in blocks: so many may be meant that a list of them takes long."""
        if not (multiple and self.spans_blocks(delivery_tag)):
            return [self.take_unacked(delivery_tag, multiple)]
        if delivery_tag == 0:
            return self.take_all()
        if delivery_tag > self.delivery_tag:
            raise unknown_tag(delivery_tag)
        whole = bisect_right(self.older_ends, delivery_tag)
        taken: Blocks = [block.values() for block in self.older[:whole]]
        del self.older[:whole], self.older_ends[:whole]
        block: dict[int, Entry] = self.older[0] if self.older else self.unacked
        tags = list(takewhile(lambda tag: tag <= delivery_tag, block))
        if tags:
            taken.append([block.pop(tag) for tag in tags])
            if self.older and not block:
                del self.older[0], self.older_ends[0]
        if not any(taken):  # blocks may be empty
            raise unknown_tag(delivery_tag)
        return taken

    def take_all(self) -> Blocks:
        """Everything, in blocks, no longer unacknowledged."""
        taken: Blocks = [block.values() for block in self.older]
        if self.unacked:
            taken.append(self.unacked.values())
        self.older, self.older_ends, self.unacked = [], [], {}
        return taken

    def hold_again(self, tables: list[dict[int, Entry]]) -> None:
        """They are unacknowledged as before: all that there were when they were taken, in order."""
        if tables and not self.older and not self.unacked:
            self.unacked = tables.pop()
        self.older[:0] = tables
        self.older_ends[:0] = [next(reversed(table)) for table in tables]

    # -- what becomes of them

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
        self.release_all(entries)
        for queue, returned in by_queue(entries).items():
            queue.requeue(returned, self.has_failed)
        self.credit_returned()

    def has_failed(self, entry: Entry) -> bool:
        """Does a delivery that the client gives back count as a failed try?

        Not where it has cancelled the consumer: libraries do so and then give back what they had fetched for
        an application that wants no more of it.
        """
        consumer = entry.consumer
        return consumer is None or self.consumers.get(consumer.tag) is consumer

    def discard(self, entries: list[Entry]) -> None:
        """Rejected for good: to the dead letters of their queues, where these have such."""
        self.release_all(entries)
        for queue, rejected in by_queue(entries).items():
            queue.discard(rejected)
            queue.mark()
        self.credit_returned()

    def release_all(self, entries: list[Entry]) -> int:
        for entry in entries:
            self.release(entry)
        return 0


def unknown_tag(delivery_tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {delivery_tag}")
