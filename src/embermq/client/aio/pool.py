"""Pools of connections and channels, for tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from embermq.client.address import ConnectOptions
from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.connection import AsyncConnection, connect_async
from embermq.client.calls.pool import Closable, PoolHandle, is_clean
from embermq.client.errors import ConnectionClosed, Timeout

T = TypeVar("T", bound=Closable)


class AsyncPool(PoolHandle[T], Generic[T]):
    """`async with pool.acquire() as item:` waits until one is free. `size` are made, when they are needed."""

    def __init__(self, make: Callable[[], Awaitable[T]], size: int) -> None:
        super().__init__(size)
        self._make = make
        self._permits = asyncio.Semaphore(size)

    @asynccontextmanager
    async def acquire(self, timeout_s: float | None = None) -> AsyncIterator[T]:
        """One for this task alone, until the block ends; Timeout when none became free in that time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._permits.acquire()
        except TimeoutError:
            raise Timeout(f"none of the {self.size} of {self!r} became free within {timeout_s:g} s") from None
        item: T | None = None
        try:
            if self.is_closed:
                raise ConnectionClosed("the pool is closed")
            item = self._pick() or await self._make()
            yield item
        finally:
            if item is not None:
                await self._take_back(item)
            self._permits.release()

    async def _take_back(self, item: T) -> None:
        if self.is_closed:
            await item.close()
        elif not item.is_closed:
            self._idle.append(item)

    async def close(self) -> None:
        """Close what is idle now, and the others as they come back."""
        self.is_closed = True
        while (item := self._pick()) is not None:
            await item.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncConnectionPool(AsyncPool[AsyncConnection]):
    """Connections to one address; `options` as of `connect_async`."""

    def __init__(
        self,
        url: str | Sequence[str] = "amqp://localhost",
        *,
        size: int = 4,
        **options: Unpack[ConnectOptions],
    ) -> None:
        super().__init__(lambda: connect_async(url, **options), size)


class AsyncChannelPool(AsyncPool[AsyncChannel]):
    """Channels of one connection. One that comes back with consumers or in a transaction is replaced."""

    def __init__(
        self,
        connection: AsyncConnection,
        *,
        size: int = 16,
        confirms: bool = True,
        prefetch: int | None = 1000,
    ) -> None:
        super().__init__(lambda: connection.channel(confirms=confirms, prefetch=prefetch), size)

    async def _take_back(self, item: AsyncChannel) -> None:
        if item.is_closed or is_clean(item):
            await super()._take_back(item)
        else:
            item.close_soon()
