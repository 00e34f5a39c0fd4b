"""Super streams: several streams behind one exchange, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from embermq.client.calls import stream as streams
from embermq.client.calls.channel import (
    exchange_declare,
    exchange_delete,
    opened,
    queue_bind,
    queue_declare,
    queue_delete,
)
from embermq.client.calls.stream import Offset, StreamHandle
from embermq.client.errors import NotFound

SUPER_STREAM, PARTITION_ORDER = "x-super-stream", "x-stream-partition-order"
T = TypeVar("T", bound=StreamHandle[Any])
C = TypeVar("C")  # the shell's consumer of all partitions


class SuperStreamHandle(Generic[T, C]):
    """An exchange with several streams behind it, `NAME-0`, `NAME-1` ... Publish to the exchange `NAME`."""

    stream_type: type[T]
    consumer_type: Any  # of a list of the partitions' consumers and a time-out

    def __init__(self, channel: Any, name: str) -> None:
        self.channel = channel
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}'>"


S = TypeVar("S", bound=SuperStreamHandle[Any, Any])


async def declare(
    super_stream: S,
    partitions: int = 0,
    *,
    routing_keys: Sequence[str] = (),
    max_age: str | timedelta | None = None,
    max_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> S:
    """By number, the routing key's hash chooses the partition; or one partition for each routing key."""
    if bool(partitions) == bool(routing_keys):
        raise ValueError("say either how many partitions there are, or their routing keys")
    channel, name = super_stream.channel, super_stream.name
    check_partitions(channel.connection.is_embermq, partitions)
    kind = "direct" if routing_keys else "x-modulus-hash"
    await exchange_declare(channel, name, kind, durable=True, arguments={SUPER_STREAM: True})
    keys = list(routing_keys) or [str(number) for number in range(partitions)]
    for number, key in enumerate(keys):
        partition = super_stream.stream_type(channel, f"{name}-{number}")
        await streams.declare(partition, max_age=max_age, max_bytes=max_bytes, segment_bytes=segment_bytes)
        await queue_bind(channel, partition.name, name, key, arguments={PARTITION_ORDER: number})
    return super_stream


async def partitions(super_stream: SuperStreamHandle[T, Any]) -> list[T]:
    """Those that are there."""
    found: list[T] = []
    channel = super_stream.channel
    while True:
        name = f"{super_stream.name}-{len(found)}"
        try:
            async with opened(channel.connection) as probe:
                await queue_declare(probe, name, passive=True)
        except NotFound:
            return found
        found.append(super_stream.stream_type(channel, name))


async def consume(
    super_stream: SuperStreamHandle[Any, C],
    offset: Offset = "next",
    *,
    name: str | None = None,
    filter_values: Sequence[str] = (),
    match_unfiltered: bool = False,
    prefetch: int | None = None,
    timeout_s: float | None = None,
) -> C:
    """Read all partitions as one; each keeps its order.

    With `name` (EmberMQ) the broker remembers how far each partition was acked, and of several programs
    that use the same name one at a time reads a partition.
    """
    parts: list[Any] = []
    try:
        for partition in await partitions(super_stream):
            parts.append(
                await streams.consume(
                    partition,
                    offset,
                    name=name,
                    filter_values=filter_values,
                    match_unfiltered=match_unfiltered,
                    prefetch=prefetch,
                )
            )
    except BaseException:
        for part in parts:
            part.cancel_soon()
        raise
    if not parts:
        raise ValueError("there are no partitions to consume: declare the super stream first")
    consumer: C = super_stream.consumer_type(parts, timeout_s)
    return consumer


async def delete(super_stream: SuperStreamHandle[Any, Any]) -> None:
    for partition in await partitions(super_stream):
        await queue_delete(super_stream.channel, partition.name)
    await exchange_delete(super_stream.channel, super_stream.name)


def check_partitions(is_embermq: bool, partitions: int) -> None:
    """RabbitMQ closes the whole connection (503) for an exchange type that it does not know."""
    if partitions and not is_embermq:
        raise ValueError(
            "this broker may not know the exchange type x-modulus-hash (a plugin of RabbitMQ's): give the "
            "routing_keys of the partitions instead of their number"
        )
