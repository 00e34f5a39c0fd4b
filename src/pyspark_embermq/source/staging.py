"""Messages of a classic queue between the broker and Spark: taken, numbered, not yet acknowledged.

A queue has no offsets of its own, so messages get numbers as they are taken: {"orders": 7} means that seven
were handed to Spark before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from embermq.client import Channel, ClientError, ColumnBatch, ColumnConsumer
from pyspark_embermq.broker import PREFETCH, BrokerLink, sentence
from pyspark_embermq.decoding.received_columns import Arrivals

MOMENT_S = 0.05
# What may be out of the queues of a query: two batches, one in the making and one that is not committed yet.
# By messages and by bytes on EmberMQ; other brokers know a number of messages only, of 16 bits.
MESSAGES_MAX = 200_000
BYTES_MAX = 64 * 1024 * 1024
BYTES_MIN = 1024 * 1024  # of each, however many there are


@dataclass
class Staged:
    """Messages with the numbers from `first` on, and the consumer that got them."""

    first: int
    batch: ColumnBatch
    consumer: ColumnConsumer

    @property
    def end(self) -> int:
        return self.first + self.batch.count


class Staging:
    """One queue, in the process beside the driver."""

    def __init__(self, link: BrokerLink, queue: str, wanted: Collection[str], bytes_max: int) -> None:
        self.link = link
        self.bytes_max = bytes_max  # that may be out at a time, if the broker counts them
        self.queue = queue
        self.wanted = wanted
        self.channel: Channel | None = None
        self.consumer: ColumnConsumer | None = None
        self.base = 0  # the first number that is not settled
        self.end = 0  # and the one behind the last
        self.staged: deque[Staged] = deque()
        self.begun = False
        self.redelivered_count = 0

    def begin_at(self, number: int) -> None:
        """Go on from a checkpoint: what was taken before has been acknowledged or will come again."""
        if not self.begun:
            self.begun = True
            self.base = self.end = number

    def take(self, count: int, patience_s: float = MOMENT_S) -> None:
        """Take about so many more from the broker: what is there, without waiting long for more."""
        size = 0
        while count > 0 and size < self.bytes_max // 2:
            batch = self.fetched(patience_s)
            if batch is None:
                return
            assert self.consumer is not None
            self.staged.append(Staged(self.end, batch, self.consumer))
            self.end += batch.count
            if batch.redelivered is not None:
                self.redelivered_count += batch.redelivered.count(1)  # of each number one byte at most
            count -= batch.count
            size += batch.nbytes

    def fetched(self, patience_s: float) -> ColumnBatch | None:
        try:
            if self.consumer is None or self.channel is None or self.channel.is_closed:
                self.consume()
            assert self.consumer is not None
            return self.consumer.fetch(1, patience_s)
        except ClientError as error:
            # Messages that are staged stay: they will come again, and this is at least once.
            self.consumer = self.channel = None
            raise sentence(self.link.options, error) from error

    def consume(self) -> None:
        """Begin to get messages, as many ahead as the user says, or as many as make large batches."""
        prefetch = self.link.options.prefetch
        self.channel = self.link.connection.channel(prefetch=prefetch or PREFETCH, confirms=False)
        arguments = self.link.selecting(self.queue)
        if not prefetch and self.link.is_embermq:
            self.channel.qos(PREFETCH, prefetch_size=self.bytes_max)
            arguments["x-prefetch-count"] = MESSAGES_MAX
        self.consumer = self.channel.consume_columns(self.queue, self.wanted, arguments=arguments)

    @property
    def known_end(self) -> int:
        """The number behind the last message that has come from the broker, taken or not."""
        return self.end + (self.consumer.arrived_count if self.consumer is not None else 0)

    def fitting(self, start: int, count: int, bytes_max: int) -> tuple[int, int]:
        """How many of these messages have so many bytes in their bodies, and how many bytes; one at least."""
        fit = size = 0
        for arrived in self.between(start, start + count):
            for length in arrived.body_sizes():
                if fit and size + length > bytes_max:
                    return fit, size
                fit, size = fit + 1, size + length
        return fit, size

    def between(self, start: int, end: int) -> list[Arrivals]:
        """The messages with these numbers; none when they were staged by a process that is no more."""
        if start < self.base:
            return []
        return [
            Arrivals(staged.batch).part(max(start - staged.first, 0), end - staged.first)
            for staged in self.staged
            if staged.first < end and staged.end > start
        ]

    def settle(self, end: int) -> None:
        """Spark has done with everything before this number: acknowledge it, if that is not done."""
        if end <= self.base:
            return
        last: Staged | None = None
        while self.staged and self.staged[0].first < end:
            last = self.staged[0]
            if self.staged[0].end > end:
                break  # some of it is of the next batch
            self.staged.popleft()
        self.base = max(self.base, min(end, self.end))
        if last is not None:
            last.consumer.ack(last.batch, min(end - last.first, last.batch.count))
            self.link.connection.flush()
