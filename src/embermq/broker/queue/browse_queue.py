"""A queue for one browsing consumer: copies of another queue's messages, or messages made for it.

No other client can reach it. It is filled little by little from a feed, so that credit,
acknowledgements and back-pressure are those of any queue, and the deepest queue is read with bounded memory.
When everything has been delivered the consumer is told by basic.cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embermq.broker.message.message import Message
from embermq.broker.queue.browse import Place, ends_now, level_name, ready_in
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.queue.queue import Queue

if TYPE_CHECKING:
    from embermq.broker.selector.selector import Selector
    from embermq.broker.vhost import VirtualHost

FEED_COUNT = 500
FEED_BYTES = 512 * 1024

LOOKED_AT_MAX = 2000  # messages in one go, where only some are wanted
FOLLOW_MS = 50  # until a queue that is followed is looked at again

# The next messages; none: that was all. A number: there are none now, ask again in so many milliseconds.
Feed = Callable[[], list[Message] | int]


class BrowseQueue(ClassicQueue):
    """The messages that one consumer browses."""

    def __init__(self, vhost: VirtualHost, name: str, feed: Feed, source: Queue | None = None) -> None:
        super().__init__(vhost, name, vhost.turn)
        self.source = source
        self.feed: Feed | None = feed
        self.wait_ms = 0
        self.waiting = False  # the timers will call
        self.fill()

    def fill(self) -> None:
        if self.feed is None:
            return
        messages = self.feed()
        self.wait_ms = 0
        if isinstance(messages, int):
            self.wait_ms, messages = messages, []
        elif not messages:
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
        if self.ready_count < FEED_COUNT and not self.waiting:
            self.fill()
        left = super().drain()
        if self.ready_count:
            return left
        if self.feed is not None:
            return not self.waits()
        for consumer in list(self.consumers):
            self.remove_consumer(consumer)
            consumer.range_delivered()
        return False

    def waits(self) -> bool:
        """Is there nothing to deliver for a while? Then the timers will call."""
        timers = self.vhost.turn.timers
        if self.wait_ms and not self.waiting and timers is not None:
            self.waiting = True
            timers.ask(self.vhost.turn.now_ms + self.wait_ms, self)
        return self.waiting

    def on_due(self, now_ms: int) -> None:
        self.waiting = False
        self.begin()


def browse_of(
    queue: Queue, selector: Selector | None = None, place: Place | None = None, follow: bool = False
) -> BrowseQueue:
    """What waits in a queue at this moment, in order; messages that leave meanwhile are left out.

    Only what is selected, from a place on (ValueError: there is none like that). `follow`: also what comes.
    """
    ends = ends_now(queue)
    nexts = dict.fromkeys(ends, 0)  # what was not looked at begins there, by level
    if place is not None:
        if place.level not in nexts:
            raise ValueError(f"queue '{queue.name}' has no position {place}")
        for name in nexts:  # in the order in which levels are emptied
            if name == place.level:
                nexts[name] = place.sequence
                break
            nexts[name] = ends[name]

    def feed() -> list[Message] | int:
        messages: list[Message] = []
        size = looked_at = 0
        for level in queue.levels:
            name = level_name(level)
            end = level.next_sequence if follow else ends[name]
            for seen in ready_in(level, nexts[name], end):
                nexts[name] = seen.sequence + 1
                looked_at += 1
                size += seen.message.size
                if selector is None or selector.matches(seen.message, seen.redelivered):
                    messages.append(seen.message)
                if len(messages) >= FEED_COUNT or size >= FEED_BYTES or looked_at >= LOOKED_AT_MAX:
                    return messages or 0
            nexts[name] = max(nexts[name], end)
        return messages or (FOLLOW_MS if follow else [])

    return BrowseQueue(queue.vhost, queue.name, feed, queue)


def single_message(vhost: VirtualHost, name: str, message: Message) -> BrowseQueue:
    """One message, made for this reader."""
    messages = [message]

    def feed() -> list[Message] | int:
        found = list(messages)
        messages.clear()
        return found

    return BrowseQueue(vhost, name, feed)
