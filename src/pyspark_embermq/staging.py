"""Messages of a classic queue between the broker and Spark: taken, numbered, not yet acknowledged.

A queue has no offsets of its own, so messages get numbers as they are taken: {"orders": 7} means that seven
were handed to Spark before. A number may also be a gap, which stands for no message: it lets a query whose
queue is empty make one more batch, because Spark commits a batch only when it begins the next one.
"""

from __future__ import annotations

from collections import deque

from embermq.client import Channel, ClientError, Consumer, Message
from pyspark_embermq.broker_link import BrokerLink, sentence

MOMENT_S = 0.05


class Staging:
    """One queue, in the process beside the driver."""

    def __init__(self, link: BrokerLink, queue: str) -> None:
        self.link = link
        self.queue = queue
        self.channel: Channel | None = None
        self.consumer: Consumer | None = None
        self.base = 0  # the number of the first one that is staged
        self.staged: deque[Message | None] = deque()  # None is a gap
        self.begun = False

    @property
    def end(self) -> int:
        return self.base + len(self.staged)

    def begin_at(self, number: int) -> None:
        """Go on from a checkpoint: what was taken before has been acknowledged or will come again."""
        if not self.begun:
            self.begun = True
            self.base = number

    def take(self, count: int, patience_s: float = MOMENT_S) -> None:
        """Take up to so many more from the broker: what is there, without waiting long for more."""
        while count > 0:
            messages = self.fetched(count, patience_s)
            if not messages:
                return
            self.staged.extend(messages)
            count -= len(messages)

    def fetched(self, count: int, patience_s: float) -> list[Message]:
        try:
            if self.consumer is None or self.channel is None or self.channel.is_closed:
                self.channel = self.link.connection.channel(
                    prefetch=self.link.options.prefetch, confirms=False
                )
                self.consumer = self.channel.consume(self.queue)
            return self.consumer.fetch(count, patience_s)
        except ClientError as error:
            # Messages that are staged stay: they will come again, and this is at least once.
            self.consumer = self.channel = None
            raise sentence(self.link.options, error) from error

    def add_gap(self) -> None:
        self.staged.append(None)

    @property
    def has_messages(self) -> bool:
        return any(message is not None for message in self.staged)

    def between(self, start: int, end: int) -> list[Message]:
        """The messages with these numbers; none when they were staged by a process that is no more."""
        if start < self.base:
            return []
        found = list(self.staged)[start - self.base : end - self.base]
        return [message for message in found if message is not None]

    def settle(self, end: int) -> None:
        """Spark has done with everything before this number: acknowledge it."""
        last: Message | None = None
        while self.staged and self.base < end:
            message = self.staged.popleft()
            last = message or last
            self.base += 1
        if last is not None:
            last.ack(multiple=True)
            self.link.connection.flush()
