"""Pools of connections or channels: so many at most, each used by one thread or task at a time."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    @property
    def is_closed(self) -> bool: ...

    def close(self) -> Any: ...


T = TypeVar("T", bound=Closable)


class PoolHandle(Generic[T]):
    """What a pool holds; the shells make and await. What comes back closed is replaced by a new one."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a pool needs a size of at least 1, not {size!r}")
        self.size = size
        self.is_closed = False
        self._idle: deque[T] = deque()

    def _pick(self) -> T | None:
        """One that is idle and open; None: make one."""
        while self._idle:
            try:
                item = self._idle.pop()
            except IndexError:
                break  # another thread was quicker
            if not item.is_closed:
                return item
        return None

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"at most {self.size}, {len(self._idle)} idle"
        return f"<{type(self).__name__}, {state}>"


def is_clean(channel: Any) -> bool:
    """A channel as it was opened: others may use it."""
    return not (channel.core.consumers or channel.core.transactional)
