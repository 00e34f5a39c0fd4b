"""Streams and super streams for coroutines."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.consumer import AsyncConsumer
from embermq.client.calls import stream, super_stream
from embermq.client.calls.stream import StreamHandle
from embermq.client.calls.super_stream import SuperStreamHandle
from embermq.client.core.message import Message


class AsyncStream(StreamHandle[AsyncConsumer]):
    """A stream by its name. Publish to it as to any queue."""

    channel: AsyncChannel

    declare = stream.declare
    consume = stream.consume
    first_offset = stream.first_offset
    next_offset = stream.next_offset
    offset_at = stream.offset_at


class AsyncSuperStreamConsumer:
    """The consumers of all partitions as one iterator. Leaving its `async with` block cancels them."""

    def __init__(self, parts: list[AsyncConsumer], timeout_s: float | None) -> None:
        self.parts = parts
        self.timeout_s = timeout_s
        self._taken: deque[Message] = deque()
        self._sleepers = parts[0].sleepers
        for part in parts:
            part.sleepers = self._sleepers  # whoever gets something wakes us

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            while self._taken:
                message = self._taken.popleft()
                if not message.stale:
                    return message
            ready = next((part for part in self.parts if part.messages), None)
            if ready is not None:
                self._taken.extend(ready.taken())
                self.parts.append(self.parts.pop(self.parts.index(ready)))  # the others come first next time
            elif not await self.parts[0].arrival(self.timeout_s, self.parts):
                raise StopAsyncIteration

    async def cancel(self) -> None:
        for part in self.parts:
            await part.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
