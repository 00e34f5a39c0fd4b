"""A deadline: an action that is done once, at a time that may be moved or cancelled.

For what is neither moved nor cancelled, the `call_later` of the event loop is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


# As event loops have it: after so many seconds, do that.
CallLater = Callable[[float, Callable[[], None]], Timer]


class Deadline:
    __slots__ = ("action", "call_later", "timer")

    def __init__(self, call_later: CallLater, action: Callable[[], None]) -> None:
        self.call_later = call_later
        self.action = action
        self.timer: Timer | None = None

    @property
    def is_set(self) -> bool:
        return self.timer is not None

    def set(self, after_s: float) -> None:
        """In so many seconds, and not when it was set to before."""
        self.cancel()
        self.timer = self.call_later(after_s, self.expire)

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def expire(self) -> None:
        """Do it now."""
        self.cancel()
        self.action()
