"""`BrokerLink`: the connection of a Spark process, and its questions about queues and streams.

What EmberMQ tells on request (docs/streams.md, docs/leases.md), other brokers are asked in roundabout ways.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Self

from embermq.client import (
    AccessRefused,
    AuthenticationFailed,
    Channel,
    ClientError,
    ColumnBatch,
    ColumnConsumer,
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
    ConsumerCancelled,
    NotFound,
    Timeout,
    connect,
)
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.errors import AMQPSourceError, Denied, Missing, Unreachable
from pyspark_embermq.offsets import Bounds, Range
from pyspark_embermq.options import Options

CONNECT_S_MAX = 30.0
PREFETCH = 10_000  # of messages that are acked as they come, unless the user says another number
ANSWER_S_MAX = 30.0
QUIET_S = 1.0  # a broker that cannot say "empty" is believed to have nothing after so long
MOMENT_S = 0.1  # and to have sent all of the last chunk
CHASE_S_MAX = 2.0


class BrokerLink:
    """One connection, opened when it is first needed; it is left behind when its owner travels."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._connection: Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_connection": None}

    @property
    def connection(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = connected(self.options)
        return self._connection

    @property
    def is_embermq(self) -> bool:
        return self.connection.server_properties.get("product") == "EmberMQ"

    def require_embermq(self, what: str) -> None:
        if not self.is_embermq:
            raise AMQPSourceError(
                f"{what}, which the broker at {self.options.place} does not have: EmberMQ has"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def channel(self, **settings: Any) -> Iterator[Channel]:
        """A channel for one piece of work; what the broker refuses becomes a sentence."""
        try:
            with self.connection.channel(**settings) as channel:
                yield channel
        except ClientError as error:
            raise sentence(self.options, error) from error

    # -- what there is

    def describe(self, queue: str, at_ms: int | None = None) -> dict[str, Any]:
        """What EmberMQ knows of a queue: type, messages, and of a stream its offsets."""
        arguments: dict[str, object] = {"x-describe": True}
        if at_ms is not None:
            arguments["x-describe-time"] = at_ms
        with self.channel(prefetch=None, confirms=False) as channel:
            consumer = channel.consume(queue, no_ack=True, arguments=arguments)
            answers = consumer.fetch(1, ANSWER_S_MAX)
            if not answers:
                raise AMQPSourceError(f"the broker at {self.options.place} does not answer")
            described: dict[str, Any] = json.loads(answers[0].body)
            return described

    def matching(self, pattern: str) -> dict[str, bool]:
        """The queues whose whole name matches a regular expression, each with whether it is a stream."""
        self.require_embermq("option 'subscribePattern' needs the names of queues")
        listed = self.listed("", {"x-list-queues": pattern}, "queues")
        return {queue["name"]: queue["type"] == "stream" for queue in listed}

    def bindings(self, queue: str) -> list[dict[str, Any]]:
        """The bindings of a queue, each with its exchange, routing key and the names of its arguments."""
        return self.listed(queue, {"x-list-bindings": True}, "bindings")

    def listed(self, queue: str, arguments: dict[str, object], name: str) -> list[dict[str, Any]]:
        """A list that EmberMQ gives in as many messages as it takes."""
        found: list[dict[str, Any]] = []
        with self.channel(prefetch=None, confirms=False) as channel:
            consumer = channel.consume(queue, no_ack=True, arguments=arguments)
            try:
                while answers := consumer.fetch(1, ANSWER_S_MAX):
                    for answer in answers:
                        found += json.loads(answer.body)[name]
            except ConsumerCancelled:
                return found
        raise AMQPSourceError(f"the broker at {self.options.place} does not answer")

    def waiting_count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        with self.channel(prefetch=None, confirms=False) as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)

    def partitions(self, super_stream: str) -> list[str]:
        """The streams of a super stream."""
        self.require_embermq("option 'superStream' needs the names of its partitions")
        found = self.describe(super_stream)
        if "partitions" not in found:
            raise AMQPSourceError(
                f"'{super_stream}' is no super stream but a queue: name it in option 'queue'"
            )
        return [str(name) for name in found["partitions"]]

    def is_stream(self, queue: str) -> bool:
        return self.kind(queue) == "stream"

    def kind(self, queue: str) -> str:
        """classic, quorum or stream."""
        return str(self.describe(queue)["type"]) if self.is_embermq else kind_elsewhere(self, queue)

    def bounds(self, queue: str) -> Bounds:
        """The first offset in a stream and the one that the next message gets."""
        if self.is_embermq:
            found = self.describe(queue)
            return Bounds(found["first_offset"], found["next_offset"], found.get("id", ""))
        return bounds_elsewhere(self, queue)

    def offset_at(self, queue: str, at_ms: int) -> int:
        """The offset of the first message that came then or later."""
        if self.is_embermq:
            return int(self.describe(queue, at_ms)["offset_at"])
        first = self.first_from(queue, timestamp_argument(at_ms))
        return self.bounds(queue).next if first is None else first

    def message_bytes(self, queue: str) -> float:
        """About how large a message of a queue or stream is."""
        if not self.is_embermq:
            return 1024.0
        found = self.describe(queue)
        count = found["messages_ready"] + found["messages_unacknowledged"]
        if "next_offset" in found:
            count = found["next_offset"] - found["first_offset"]
        return float((found["bytes"] or 0) / max(count, 1))

    def first_from(self, queue: str, offset: object) -> int | None:
        """The offset of the first message that a consumer with this `x-stream-offset` gets."""
        with self.channel(prefetch=1, confirms=False) as channel:
            consumer = channel.consume(queue, arguments={"x-stream-offset": offset})
            wait_for_deliveries(channel, queue)
            messages = consumer.fetch(1, QUIET_S)
            return messages[0].stream_offset if messages else None

    # -- reading

    def selecting(self, queue: str) -> dict[str, object]:
        """The arguments of a consumer that takes from a queue: with option 'selector', only what it says."""
        if not self.options.selector:
            return {}
        self.require_embermq(f"option 'selector' of queue '{queue}' needs selecting consumers")
        return {"x-selector": self.options.selector}

    def read(self, part: Range, wanted: Collection[str], timed: bool = False) -> Iterator[Arrivals]:
        """The messages of a range in order, the offsets always; ends after the last one that is there.

        With the times at which EmberMQ took them, if that is asked for.
        """
        arguments: dict[str, object] = {"x-stream-offset": part.start}
        columns = {*wanted, "offset"}
        if not self.is_embermq:
            with self.channel(prefetch=self.options.prefetch or PREFETCH, confirms=False) as channel:
                consumer = channel.consume_columns(part.queue, columns, arguments=arguments)
                yield from until_end(consumer, part, self.options)
            return
        arguments["x-stream-end-offset"] = part.end
        arguments["x-stream-timestamps"] = timed
        # The broker filters messages, not blocks of them.
        arguments |= self.options.stream_filter_arguments or {"x-stream-blocks": True}
        with self.channel(prefetch=None, confirms=False) as channel:
            # Without acks: the broker sends as fast as we read, and says when that was all.
            consumer = channel.consume_columns(part.queue, columns, no_ack=True, arguments=arguments)
            yield from until_cancelled(consumer, self.options)


def until_cancelled(consumer: ColumnConsumer, options: Options, rows: int = 0) -> Iterator[Arrivals]:
    """Everything of a consumer that the broker ends when it has delivered all, so many rows at a time."""
    while True:
        try:
            batch = fetched(consumer, rows or options.batch_rows, options)
        except ConsumerCancelled:
            return
        yield Arrivals(batch)


def fetched(consumer: ColumnConsumer, rows: int, options: Options) -> ColumnBatch:
    """The next messages, which must come."""
    batch = consumer.fetch(rows, options.idle_timeout_ms / 1000)
    if batch is None:
        queue = consumer.inbox.consume.queue
        raise Timeout(f"nothing came from '{queue}' for {options.idle_timeout_ms} ms")
    return batch


def until_end(consumer: ColumnConsumer, part: Range, options: Options) -> Iterator[Arrivals]:
    """Batches up to the end of a range; acked as they are taken, because acks are credit."""
    while True:
        batch = fetched(consumer, 1, options)
        consumer.ack(batch)
        arrived = Arrivals(batch)
        within = bisect_left(arrived.offset.to_pylist(), part.end)
        if within:
            yield arrived.part(0, within)
        if within < len(arrived) or arrived.offset[-1].as_py() == part.end - 1:
            return


def timestamp_argument(at_ms: int) -> object:
    from embermq.wire.table import Timestamp

    return Timestamp(at_ms // 1000)


def connected(options: Options) -> Connection:
    try:
        # Without reconnection: a consumer that is restored begins its range anew. Spark tries again instead.
        return connect(options.url, name="spark", connect_timeout_s=CONNECT_S_MAX, reconnect=False)
    except ClientError as error:
        raise sentence(options, error) from error


def sentence(options: Options, error: ClientError) -> AMQPSourceError:
    """What went wrong, for a user who reads it in a notebook."""
    place = options.place
    if isinstance(error, AuthenticationFailed):
        return Denied(f"the broker at {place} does not let us in: {error}")
    if isinstance(error, ConnectionLost | ConnectionClosed):
        return Unreachable(f"the connection to the broker at {place} is lost: {error}")
    if isinstance(error, ConnectionFailed):
        return Unreachable(f"the broker at {place} cannot be reached: {error}")
    if isinstance(error, NotFound) and "is down or inaccessible" in error.reply_text:
        # RabbitMQ listens before its queues are back.
        return Unreachable(f"{reason(error.reply_text)} (at {place})")
    if isinstance(error, NotFound):
        return Missing(f"{reason(error.reply_text)} (at {place})")
    if isinstance(error, AccessRefused):
        return Denied(f"{reason(error.reply_text)} (at {place})")
    return AMQPSourceError(f"{error} (at {place})")


def reason(reply_text: str) -> str:
    """NOT_FOUND - no queue 'orders' in vhost '/': the words behind the name of the code."""
    return reply_text.partition(" - ")[2] or reply_text


# -- brokers that cannot be asked


def kind_elsewhere(link: BrokerLink, queue: str) -> str:
    """Declared once more as a stream, the broker says what it is by refusing, or does not refuse."""
    with link.channel(prefetch=None, confirms=False) as channel:
        channel.queue_declare(queue, passive=True)
    try:
        with link.connection.channel(prefetch=None, confirms=False) as channel:
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    except ClientError as refusal:
        if "current is 'quorum'" in str(refusal):
            return "quorum"
        if "x-queue-type" in str(refusal) or "'durable'" in str(refusal):
            return "classic"
    return "stream"


def bounds_elsewhere(link: BrokerLink, queue: str) -> Bounds:
    """Where RabbitMQ's stream begins and ends: by the first message, and by those of the last chunk."""
    first = link.first_from(queue, "first")
    if first is None:
        return Bounds(0, 0)
    last = first
    with link.channel(prefetch=PREFETCH, confirms=False) as channel:
        consumer = channel.consume(queue, arguments={"x-stream-offset": "last"})
        wait_for_deliveries(channel, queue)
        batch = consumer.fetch(PREFETCH, link.options.idle_timeout_ms / 1000)
        if not batch:
            raise Timeout(
                f"stream '{queue}' has messages, but none came for {link.options.idle_timeout_ms} ms"
            )
        deadline = time.monotonic() + CHASE_S_MAX  # publishers may be as fast as we are
        while batch:
            consumer.ack(batch)
            last = max(last, batch[-1].stream_offset or 0)
            batch = consumer.fetch(PREFETCH, MOMENT_S) if time.monotonic() < deadline else []
    return Bounds(first, last + 1)


def wait_for_deliveries(channel: Channel, queue: str) -> None:
    """Return when RabbitMQ (3.10) has sent what the channel's consumer of a stream gets at once, if anything.

    A further consumer makes the channel's process call the stream's, which has told of its messages by then;
    the first answer says that this is done, the second one comes behind the messages.
    """
    channel.consume(queue, arguments={"x-stream-offset": "next"})
    for _ in range(2):
        channel.qos(1)
