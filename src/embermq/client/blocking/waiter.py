"""A future as light as a lock, for threads that wait for the thread of the connection."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import Any


class Waiter:
    """Each thread that waits has a lock of its own, so that an interrupted one leaves nothing behind."""

    __slots__ = ("_error", "_locks", "_over", "_result", "_then")

    def __init__(self) -> None:
        self._locks: deque[Any] = deque()
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._then: Callable[[], None] | None = None

    def then(self, function: Callable[[], None]) -> None:
        """Have it called, by the thread that ends this."""
        self._then = function

    def done(self) -> bool:
        return self._over

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._end()

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self._end()

    def _end(self) -> None:
        self._over = True
        while self._locks:
            self._locks.popleft().release()
        if self._then is not None:
            self._then()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it happened in time."""
        if not self._over:
            lock = allocate_lock()
            lock.acquire()
            self._locks.append(lock)
            if not self._over:  # else it may not have seen our lock
                lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0))
        return self._over

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result
