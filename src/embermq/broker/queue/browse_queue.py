"""A queue for one browsing consumer: copies of another queue's messages, or messages made for it.

No other client can reach it. It is filled little by little from a feed, so that credit,
acknowledgements and back-pressure are those of any queue, and the deepest queue is read with bounded memory.
When everything has been delivered the consumer is told by basic.cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embermq.broker.message.message import Message
from embermq.broker.queue.browse import Place, ends_now, ready_from
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.queue.queue import Queue

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

FEED_COUNT = 500
FEED_BYTES = 512 * 1024

# The next messages; none: that was all.
Feed = Callable[[], list[Message]]


class BrowseQueue(ClassicQueue):
    """The messages that one consumer browses."""

    def __init__(self, vhost: VirtualHost, name: str, feed: Feed, source: Queue | None = None) -> None:
        super().__init__(vhost, name, vhost.turn)
        self.source = source
        self.feed: Feed | None = feed
        self.fill()

    def fill(self) -> None:
        if self.feed is None:
            return
        messages = self.feed()
        if not messages:
            self.feed = None
        for message in messages:
            self.accept(message, 0)

    def begin(self) -> None:
        """Once the consumer is there: also when there are no messages."""
        if not self.dirty:
            self.dirty = True
            self.vhost.turn.add_queue(self)

    def drain(self) -> bool:
        if not self.consumers:
            return False
        if self.source is not None and self.source.deleted:
            for consumer in list(self.consumers):
                self.remove_consumer(consumer)
                consumer.queue_deleted()
            return False
        if self.ready_count < FEED_COUNT:
            self.fill()
        left = super().drain()
        if self.ready_count:
            return left
        if self.feed is not None:
            return True
        for consumer in list(self.consumers):
            self.remove_consumer(consumer)
            consumer.range_delivered()
        return False


def browse_of(queue: Queue) -> BrowseQueue:
    """What waits in a queue at this moment, in order; messages that leave meanwhile are left out."""
    ends = ends_now(queue)
    place: Place | None = None

    def feed() -> list[Message]:
        nonlocal place
        messages: list[Message] = []
        size = 0
        for seen in ready_from(queue, place, ends):
            place = seen.next_place
            messages.append(seen.message)
            size += seen.message.size
            if len(messages) >= FEED_COUNT or size >= FEED_BYTES:
                break
        return messages

    return BrowseQueue(queue.vhost, queue.name, feed, queue)


def single_message(vhost: VirtualHost, name: str, message: Message) -> BrowseQueue:
    """One message, made for this reader."""
    messages = [message]

    def feed() -> list[Message]:
        found = list(messages)
        messages.clear()
        return found

    return BrowseQueue(vhost, name, feed)
