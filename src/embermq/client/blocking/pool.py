"""Pools of connections and channels, for threads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, Unpack

from embermq.client.address import ConnectOptions
from embermq.client.blocking.channel import Channel
from embermq.client.blocking.connection import Connection, connect
from embermq.client.calls import pool
from embermq.client.calls.once import blocking, blocking_block
from embermq.client.calls.pool import Closable, PoolHandle
from embermq.client.calls.with_block import WithBlock

T = TypeVar("T", bound=Closable)


class Pool(PoolHandle[T], WithBlock, Generic[T]):
    """`with pool.acquire() as item:` waits until one is free. `size` are made, when they are needed."""

    def __init__(self, make: Callable[[], T], size: int) -> None:
        super().__init__(make, size)
        self._permits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self.release()

    def permitted(self, timeout_s: float | None) -> bool:
        try:
            self._permits.get(timeout=timeout_s)
        except queue.Empty:
            return False
        return True

    def release(self) -> None:
        self._permits.put(None)

    acquire = blocking_block(pool.acquire)
    close = blocking(pool.close)


class ConnectionPool(Pool[Connection]):
    """Connections to one address; `options` as of `connect`."""

    def __init__(
        self,
        url: str | Sequence[str] = "amqp://localhost",
        *,
        size: int = 4,
        **options: Unpack[ConnectOptions],
    ) -> None:
        super().__init__(lambda: connect(url, **options), size)


class ChannelPool(Pool[Channel]):
    """Channels of one connection. One that comes back with consumers or in a transaction is replaced."""

    def __init__(
        self, connection: Connection, *, size: int = 16, confirms: bool = True, prefetch: int | None = 1000
    ) -> None:
        super().__init__(lambda: connection.channel(confirms=confirms, prefetch=prefetch), size)
