"""Super streams for coroutines: several streams behind one exchange, read as one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.stream import AsyncStream, AsyncStreamConsumer
from embermq.client.core.message import Message
from embermq.client.core.streams import (
    PARTITION_ORDER,
    SUPER_STREAM,
    Offset,
    check_partitions,
    partition_names,
)
from embermq.client.errors import NotFound


class AsyncSuperStreamConsumer:
    """The consumers of all partitions as one iterator. Leaving its `async with` block cancels them."""

    def __init__(self, parts: list[AsyncStreamConsumer], timeout_s: float | None) -> None:
        if not parts:
            raise ValueError("there are no partitions to consume: declare the super stream first")
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


class AsyncSuperStream:
    """An exchange with several streams behind it, `NAME-0`, `NAME-1` ... Publish to the exchange `NAME`."""

    def __init__(self, channel: AsyncChannel, name: str) -> None:
        self.channel = channel
        self.name = name

    async def declare(
        self,
        partitions: int = 0,
        *,
        routing_keys: Sequence[str] = (),
        max_age: str | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> Self:
        """By number, the routing key's hash chooses the partition; or one partition for each routing key."""
        if bool(partitions) == bool(routing_keys):
            raise ValueError("say either how many partitions there are, or their routing keys")
        check_partitions(self.channel.connection.is_embermq, partitions)
        kind = "direct" if routing_keys else "x-modulus-hash"
        await self.channel.exchange_declare(self.name, kind, durable=True, arguments={SUPER_STREAM: True})
        keys = list(routing_keys) or [str(number) for number in range(partitions)]
        for number, name in enumerate(partition_names(self.name, len(keys))):
            await AsyncStream(self.channel, name).declare(
                max_age=max_age, max_bytes=max_bytes, segment_bytes=segment_bytes
            )
            await self.channel.queue_bind(name, self.name, keys[number], arguments={PARTITION_ORDER: number})
        return self

    async def partitions(self) -> list[AsyncStream]:
        """Those that are there."""
        return [stream async for stream in self._found()]

    async def _found(self) -> AsyncIterator[AsyncStream]:
        number = 0
        while True:
            name = f"{self.name}-{number}"
            try:
                async with await self.channel.connection.channel() as probe:
                    await probe.queue_declare(name, passive=True)
            except NotFound:
                return
            yield AsyncStream(self.channel, name)
            number += 1

    async def consume(
        self,
        offset: Offset = "next",
        *,
        name: str | None = None,
        filter_values: Sequence[str] = (),
        match_unfiltered: bool = False,
        prefetch: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncSuperStreamConsumer:
        """Read all partitions as one; each keeps its order.

        With `name` (EmberMQ) the broker remembers how far each partition was acked, and of several programs
        that use the same name one at a time reads a partition.
        """
        parts: list[AsyncStreamConsumer] = []
        try:
            for stream in await self.partitions():
                parts.append(
                    await stream.consume(
                        offset,
                        name=name,
                        filter_values=filter_values,
                        match_unfiltered=match_unfiltered,
                        prefetch=prefetch,
                    )
                )
        except BaseException:
            for part in parts:
                part.forsake()
            raise
        return AsyncSuperStreamConsumer(parts, timeout_s)

    async def delete(self) -> None:
        for stream in await self.partitions():
            await self.channel.queue_delete(stream.name)
        await self.channel.exchange_delete(self.name)
