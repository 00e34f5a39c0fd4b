"""Streams for coroutines: declare them, read them from any place, look where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.consumer import AsyncConsumer
from embermq.client.core.channel import ChannelCore
from embermq.client.core.consumers import StreamInbox
from embermq.client.core.requests import consume_method, consume_request
from embermq.client.core.streams import (
    CHUNK_S,
    LOOK_S,
    Offset,
    Progress,
    check_consume,
    consume_arguments,
    declare_arguments,
)
from embermq.wire.methods import BasicConsume


class AsyncStreamConsumer(StreamInbox, AsyncConsumer):
    """Goes on after a reconnection with the first message that was not settled."""

    def __init__(
        self, channel: AsyncChannel, core: ChannelCore, consume: BasicConsume, timeout_s: float | None
    ) -> None:
        super().__init__(channel, core, consume, timeout_s)
        self.progress = Progress(
            consume.arguments,
            no_ack=consume.no_ack,
            broker_ends_ranges=channel.connection.is_embermq,
        )


class AsyncStream:
    """A stream by its name. Publish to it as to any queue."""

    def __init__(self, channel: AsyncChannel, name: str) -> None:
        self.channel = channel
        self.name = name

    async def declare(
        self, *, max_age: str | None = None, max_bytes: int | None = None, segment_bytes: int | None = None
    ) -> Self:
        """Make it: durable, keeping messages so long (`7D`, `1h`) or so many bytes."""
        arguments = declare_arguments(max_age, max_bytes, segment_bytes)
        await self.channel.queue_declare(self.name, durable=True, arguments=arguments)
        return self

    async def consume(
        self,
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
    ) -> AsyncStreamConsumer:
        """Read from `offset`: first, last, next, a number, a time, or how long ago.

        With `end_offset` (exclusive) the iteration ends there. `name` has the broker remember how far the
        consumers of this name have acked (EmberMQ); `offset` then only says where the first of them begins.
        """
        check_consume(self.channel.connection.is_embermq, self.name, no_ack=no_ack)
        if prefetch is not None:
            await self.channel.qos(prefetch)
        arguments = consume_arguments(
            offset, end_offset, name, single_active, filter_values, match_unfiltered
        )
        core = self.channel.core
        method = consume_method(self.name, "", False, no_ack, False, arguments)
        consumer = AsyncStreamConsumer(self.channel, core, method, timeout_s)
        await self.channel.connection.call(core, consume_request(core, consumer))
        return consumer

    # -- looking without consuming

    async def first_offset(self) -> int | None:
        """The offset of the oldest message that is kept; None: there is none."""
        return await self.offset_at("first")

    async def next_offset(self) -> int:
        """The offset that the next message will have."""
        if await self._is_empty():
            return 0
        following = 0
        async with await self.channel.connection.channel(prefetch=1000) as channel:
            async with await AsyncStream(channel, self.name).consume("last") as consumer:
                batch = await consumer.fetch(1000, LOOK_S)
                while batch:
                    following = (batch[-1].stream_offset or 0) + 1
                    consumer.ack(batch)
                    # RabbitMQ begins with the last chunk: look how far it goes.
                    batch = [] if channel.connection.is_embermq else await consumer.fetch(1000, CHUNK_S)
        return following

    async def offset_at(self, offset: Offset) -> int | None:
        """The offset of the first message at a place or time; None: there is none yet."""
        if await self._is_empty():
            return None
        async with await self.channel.connection.channel(prefetch=1) as channel:
            async with await AsyncStream(channel, self.name).consume(offset) as consumer:
                found = await consumer.fetch(1, LOOK_S)
                return found[0].stream_offset if found else None

    async def _is_empty(self) -> bool:
        """For sure. RabbitMQ's message count of a stream lags behind."""
        info = await self.channel.queue_declare(self.name, passive=True)
        return info.message_count == 0 and self.channel.connection.is_embermq
