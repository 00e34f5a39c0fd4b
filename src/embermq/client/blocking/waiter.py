"""A future as light as a lock, for one thread that waits for another."""

from __future__ import annotations

import threading
from typing import Any


class Waiter:
    __slots__ = ("_error", "_lock", "_over", "_result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._over

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._over = True
        self._lock.release()

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self._over = True
        self._lock.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it happened in time."""
        return self._lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0))

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result
