"""Streams: declare them, read them from any place, look where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from embermq.client.calls.channel import opened, qos, queue_declare
from embermq.client.calls.consumer import begin
from embermq.client.calls.once import given
from embermq.client.core.requests import consume_method
from embermq.client.core.stream_progress import CONSUMER, END_OFFSET, OFFSET, Progress
from embermq.wire.table import Timestamp
from embermq.wire.times import timestamp_of

Offset = int | str | datetime | timedelta
C = TypeVar("C")  # the shell's consumer

CHUNK_S = 0.3  # between two messages of one chunk
LOOK_S = 2.0  # how long a stream may take to show a message that is there


class StreamHandle(Generic[C]):
    """A stream by its name. Publish to it as to any queue."""

    def __init__(self, channel: Any, name: str) -> None:
        self.channel = channel
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}'>"


S = TypeVar("S", bound=StreamHandle[Any])


async def declare(
    stream: S,
    *,
    max_age: str | timedelta | None = None,
    max_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> S:
    """Make it: durable, keeping messages so long (`7D`, `1h`, a timedelta) or so many bytes."""
    arguments = declare_arguments(max_age, max_bytes, segment_bytes)
    await queue_declare(stream.channel, stream.name, durable=True, arguments=arguments)
    return stream


async def consume(
    stream: StreamHandle[C],
    offset: Offset = "next",
    *,
    end_offset: int | None = None,
    name: str | None = None,
    single_active: bool = False,
    filter_values: Sequence[str] = (),
    match_unfiltered: bool = False,
    no_ack: bool = False,
    prefetch: int | None = None,
    timeout_s: float | None = None,
) -> C:
    """Read from `offset`: first, last, next, a number, a time, or how long ago.

    With `end_offset` (exclusive) the iteration ends there. `name` has the broker remember how far the
    consumers of this name have acked (EmberMQ); `offset` then only says where the first of them begins.
    """
    channel = stream.channel
    is_embermq: bool = channel.connection.is_embermq
    if prefetch is not None:
        await qos(channel, prefetch)
    arguments = consume_arguments(offset, end_offset, name, single_active, filter_values, match_unfiltered)
    method = consume_method(stream.name, "", False, no_ack, False, arguments)
    progress = Progress(method.arguments, no_ack=no_ack, broker_ends_ranges=is_embermq)
    consumer: C = await begin(channel, method, timeout_s, progress)
    return consumer


async def first_offset(stream: StreamHandle[Any]) -> int | None:
    """The offset of the oldest message that is kept; None: there is none."""
    return await offset_at(stream, "first")


async def next_offset(stream: StreamHandle[Any]) -> int:
    """The offset that the next message will have."""
    if await is_empty(stream):
        return 0
    following = 0
    async with opened(stream.channel.connection, prefetch=1000) as channel:
        consumer = await consume(type(stream)(channel, stream.name), "last")
        batch = await given(consumer.fetch(1000, LOOK_S))
        while batch:
            following = (batch[-1].stream_offset or 0) + 1
            consumer.ack(batch)
            # RabbitMQ begins with the last chunk: look how far it goes.
            batch = [] if channel.connection.is_embermq else await given(consumer.fetch(1000, CHUNK_S))
    return following


async def offset_at(stream: StreamHandle[Any], offset: Offset) -> int | None:
    """The offset of the first message at a place or time; None: there is none yet."""
    if await is_empty(stream):
        return None
    async with opened(stream.channel.connection, prefetch=1) as channel:
        consumer = await consume(type(stream)(channel, stream.name), offset)
        found = await given(consumer.fetch(1, LOOK_S))
        return found[0].stream_offset if found else None


async def is_empty(stream: StreamHandle[Any]) -> bool:
    """For sure. RabbitMQ's message count of a stream lags behind."""
    info = await queue_declare(stream.channel, stream.name, passive=True)
    return info.message_count == 0 and bool(stream.channel.connection.is_embermq)


# -- arguments


def offset_argument(offset: Offset) -> object:
    """first, last, next, 1h as they are; a number; a time (without a zone: UTC); a duration: so long ago."""
    if isinstance(offset, timedelta):
        offset = datetime.now(UTC) - offset
    if isinstance(offset, datetime):
        return Timestamp(timestamp_of(offset))
    return offset


def declare_arguments(
    max_age: str | timedelta | None, max_bytes: int | None, segment_bytes: int | None
) -> dict[str, object]:
    if isinstance(max_age, timedelta):
        max_age = f"{max_age // timedelta(seconds=1)}s"
    chosen = {
        "x-queue-type": "stream",
        "x-max-age": max_age,
        "x-max-length-bytes": max_bytes,
        "x-stream-max-segment-size-bytes": segment_bytes,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def consume_arguments(
    offset: Offset,
    end_offset: int | None,
    name: str | None,
    single_active: bool,
    filter_values: Sequence[str],
    match_unfiltered: bool,
) -> dict[str, object]:
    arguments: dict[str, object] = {OFFSET: offset_argument(offset)}
    if end_offset is not None:
        arguments[END_OFFSET] = end_offset
    if name is not None:
        arguments[CONSUMER] = name
    if single_active:
        arguments["x-single-active-consumer"] = True
    if filter_values:
        arguments["x-stream-filter"] = list(filter_values)
        arguments["x-stream-match-unfiltered"] = match_unfiltered
    return arguments
