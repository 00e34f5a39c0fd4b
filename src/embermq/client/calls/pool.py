"""Pools of connections or channels: so many at most, each used by one thread or task at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from embermq.client.calls.once import given
from embermq.client.errors import ConnectionClosed, Timeout


class Closable(Protocol):
    @property
    def is_closed(self) -> bool: ...

    def close(self) -> Any: ...


T = TypeVar("T", bound=Closable)


class PoolHandle(Generic[T]):
    """What a pool holds; the shells wait for permits. What comes back closed is replaced by a new one."""

    def __init__(self, make: Callable[[], Awaitable[T] | T], size: int) -> None:
        if size < 1:
            raise ValueError(f"a pool needs a size of at least 1, not {size!r}")
        self.make = make
        self.size = size
        self.is_closed = False
        self.idle: deque[T] = deque()

    def permitted(self, timeout_s: float | None) -> Any:
        """Wait until one of the `size` may be used; whether that was in time."""
        raise NotImplementedError

    def release(self) -> None:
        """The permit is given back."""
        raise NotImplementedError

    def pick(self) -> T | None:
        """One that is idle and open; None: make one."""
        while self.idle:
            try:
                item = self.idle.pop()
            except IndexError:
                break  # another thread was quicker
            if not item.is_closed:
                return item
        return None

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"at most {self.size}, {len(self.idle)} idle"
        return f"<{type(self).__name__}, {state}>"


@asynccontextmanager
async def acquire(pool: PoolHandle[T], timeout_s: float | None = None) -> AsyncIterator[T]:
    """One for this thread or task alone, until the block ends; Timeout when none became free in that time."""
    if not await given(pool.permitted(timeout_s)):
        raise Timeout(f"none of the {pool.size} of {pool!r} became free within {timeout_s:g} s")
    try:
        if pool.is_closed:
            raise ConnectionClosed("the pool is closed")
        item = pool.pick()
        if item is None:
            item = await given(pool.make())
        try:
            yield item
        finally:
            await take_back(pool, item)
    finally:
        pool.release()


async def take_back(pool: PoolHandle[Any], item: Any) -> None:
    if is_clean(item):
        pool.idle.append(item)
    elif not item.is_closed:
        item.close_soon()
    if pool.is_closed:
        await close(pool)


def is_clean(item: Any) -> bool:
    """A connection, or a channel as it was opened: others may use it."""
    core = getattr(item, "core", None)
    return not item.is_closed and (core is None or not (core.consumers or core.transactional))


async def close(pool: PoolHandle[Any]) -> None:
    """Close what is idle now, and the others as they come back."""
    pool.is_closed = True
    while (item := pool.pick()) is not None:
        await given(item.close())
