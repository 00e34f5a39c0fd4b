"""Streams and super streams for coroutines."""

from __future__ import annotations

from collections import deque
from typing import Self

from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.consumer import AsyncConsumer
from embermq.client.calls import stream, super_stream
from embermq.client.calls.stream import StreamHandle
from embermq.client.calls.super_stream import SuperStreamHandle
from embermq.client.calls.with_block import AsyncWithBlock
from embermq.client.core.message import Message


class AsyncStream(StreamHandle[AsyncConsumer]):
    """A stream by its name. Publish to it as to any queue."""

    channel: AsyncChannel

    declare = stream.declare
    consume = stream.consume
    first_offset = stream.first_offset
    next_offset = stream.next_offset
    offset_at = stream.offset_at


class AsyncSuperStreamConsumer(AsyncWithBlock):
    """The consumers of all partitions as one iterator. Leaving its `async with` block cancels them."""

    def __init__(self, parts: list[AsyncConsumer], timeout_s: float | None) -> None:
        self.parts = parts
        self.timeout_s = timeout_s
        self._order = deque(parts)
        for part in parts:
            part.inbox.sleepers = parts[0].inbox.sleepers  # whichever gets something wakes us

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            self._order.rotate(-1)  # each partition in turn
            for part in self._order:
                message = part.inbox.next_message()
                if message is not None:
                    return message
            if not await self.parts[0].arrival(self.timeout_s, self.parts):
                raise StopAsyncIteration

    async def cancel(self) -> None:
        for part in self.parts:
            await part.cancel()

    async def _leave(self, kind: type[BaseException] | None) -> None:
        await self.cancel()


class AsyncSuperStream(SuperStreamHandle[AsyncStream, AsyncSuperStreamConsumer]):
    """An exchange with several streams behind it, `NAME-0`, `NAME-1` ... Publish to the exchange `NAME`."""

    channel: AsyncChannel
    stream_type = AsyncStream
    consumer_type = AsyncSuperStreamConsumer

    declare = super_stream.declare
    partitions = super_stream.partitions
    consume = super_stream.consume
    delete = super_stream.delete
