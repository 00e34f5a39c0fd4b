"""Pools of connections and channels, for tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, Unpack

from embermq.client.address import ConnectOptions
from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.connection import AsyncConnection, connect_async
from embermq.client.calls import pool
from embermq.client.calls.pool import Closable, PoolHandle
from embermq.client.calls.with_block import AsyncWithBlock

T = TypeVar("T", bound=Closable)


class AsyncPool(PoolHandle[T], AsyncWithBlock, Generic[T]):
    """`async with pool.acquire() as item:` waits until one is free. `size` are made, when they are needed."""

    def __init__(self, make: Callable[[], Awaitable[T]], size: int) -> None:
        super().__init__(make, size)
        self._permits = asyncio.Semaphore(size)

    async def permitted(self, timeout_s: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._permits.acquire()
        except TimeoutError:
            return False

    def release(self) -> None:
        self._permits.release()

    acquire = pool.acquire
    close = pool.close


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
