"""When to look at what again: one timer for everything in the broker that waits for a time.

A queue with expiring messages, or one that goes when nobody uses it, asks to be looked at, as often as it
likes. Only the earliest time has a timer, and it is the caller's: the domain knows no event loop.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from itertools import count
from typing import Protocol

from embermq.broker.turn import Turn

log = logging.getLogger("embermq.broker")

AGAIN_MS = 1000  # what could not be done is tried again


class Waiting(Protocol):
    def on_due(self, now_ms: int) -> None:
        """The time that was asked for has come (or a little more than that)."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Timers:
    def __init__(self, turn: Turn, call_later: CallLater) -> None:
        self.turn = turn
        self.call_later = call_later
        self.waiting: list[tuple[int, int, Waiting]] = []  # a heap: due, number (so that ties compare), who
        self.numbers = count()
        self.timer: Timer | None = None
        self.timer_due_ms = 0
        self.stopped = False

    def ask(self, due_ms: int, waiting: Waiting) -> None:
        """Call `waiting.on_due` at that time."""
        heapq.heappush(self.waiting, (due_ms, next(self.numbers), waiting))
        if self.timer is None or due_ms < self.timer_due_ms:
            self.set_timer()

    def set_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.waiting and not self.stopped:
            self.timer_due_ms = self.waiting[0][0]
            wait_ms = max(self.timer_due_ms - self.turn.now_ms, 0)
            self.timer = self.call_later(wait_ms / 1000, self.on_timer)

    def due_in_s(self, now_ms: int) -> float:
        """Until the earliest time, or since then."""
        return (self.waiting[0][0] - now_ms) / 1000 if self.waiting else math.inf

    def stop(self) -> None:
        """Nothing is due any more: a broker that stops begins nothing that it could not end."""
        self.stopped = True
        self.set_timer()

    def on_timer(self) -> None:
        self.timer = None
        self.turn.refresh()
        now_ms = self.turn.now_ms
        while self.waiting and self.waiting[0][0] <= now_ms:
            _, _, waiting = heapq.heappop(self.waiting)
            try:
                waiting.on_due(now_ms)
            except Exception:  # what is wrong with one must not hold up the others
                log.exception("what was due could not be done, it is tried again: %r", waiting)
                heapq.heappush(self.waiting, (now_ms + AGAIN_MS, next(self.numbers), waiting))
        if self.timer is None:
            self.set_timer()
