"""Pools of connections and channels, for threads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from embermq.client.address import ConnectOptions
from embermq.client.blocking.channel import Channel
from embermq.client.blocking.connection import Connection, connect
from embermq.client.calls.pool import Closable, PoolHandle, is_clean
from embermq.client.errors import ConnectionClosed, Timeout

T = TypeVar("T", bound=Closable)


class Pool(PoolHandle[T], Generic[T]):
    """`with pool.acquire() as item:` waits until one is free. `size` are made, when they are needed."""

    def __init__(self, make: Callable[[], T], size: int) -> None:
        super().__init__(size)
        self._make = make
        self._permits: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._permits.put(None)

    @contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[T]:
        """One for this thread alone, until the block ends; Timeout when none became free in that time."""
        try:
            self._permits.get(timeout=timeout_s)
        except queue.Empty:
            raise Timeout(f"none of the {self.size} of {self!r} became free within {timeout_s:g} s") from None
        item: T | None = None
        try:
            if self.is_closed:
                raise ConnectionClosed("the pool is closed")
            item = self._pick() or self._make()
            yield item
        finally:
            if item is not None:
                self._take_back(item)
            self._permits.put(None)

    def _take_back(self, item: T) -> None:
        if self.is_closed:
            item.close()
        elif not item.is_closed:
            self._idle.append(item)

    def close(self) -> None:
        """Close what is idle now, and the others as they come back."""
        self.is_closed = True
        while (item := self._pick()) is not None:
            item.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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

    def _take_back(self, item: Channel) -> None:
        if item.is_closed or is_clean(item):
            super()._take_back(item)
        else:
            item.close_soon()
