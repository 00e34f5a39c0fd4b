"""Timers of the broker: a heap of things to do at a time (expiry, unused queues, delayed messages).

Only the earliest has a timer of the event loop's, which is passed in: the domain knows no event loop.
"""

from __future__ import annotations

import heapq
import logging
from itertools import count
from typing import Protocol

from embermq.broker.turn import Turn
from embermq.deadline import CallLater, Deadline

log = logging.getLogger("embermq.broker")

AGAIN_MS = 1000  # what could not be done is tried again


class Waiting(Protocol):
    def on_due(self, now_ms: int) -> None:
        """The time that was asked for has come (or a little more than that)."""
        ...


class Timers:
    def __init__(self, turn: Turn, call_later: CallLater) -> None:
        self.turn = turn
        self.waiting: list[tuple[int, int, Waiting]] = []  # a heap: due, number (so that ties compare), what
        self.numbers = count()
        self.deadline = Deadline(call_later, self.on_timer)
        self.deadline_ms = 0
        self.stopped = False

    def ask(self, due_ms: int, waiting: Waiting) -> None:
        """Call `waiting.on_due` at that time."""
        heapq.heappush(self.waiting, (due_ms, next(self.numbers), waiting))
        if not self.deadline.is_set or due_ms < self.deadline_ms:
            self.set_deadline()

    def set_deadline(self) -> None:
        if self.waiting and not self.stopped:
            self.deadline_ms = self.waiting[0][0]
            self.deadline.set(max(self.deadline_ms - self.turn.now_ms, 0) / 1000)

    def stop(self) -> None:
        """Nothing is due any more: a broker that stops begins nothing that it could not end."""
        self.stopped = True
        self.deadline.cancel()

    def on_timer(self) -> None:
        self.turn.refresh()
        now_ms = self.turn.now_ms
        while self.waiting and self.waiting[0][0] <= now_ms:
            _, _, waiting = heapq.heappop(self.waiting)
            try:
                waiting.on_due(now_ms)
            except Exception:  # what is wrong with one must not hold up the others
                log.exception("what was due could not be done, it is tried again: %r", waiting)
                heapq.heappush(self.waiting, (now_ms + AGAIN_MS, next(self.numbers), waiting))
        if not self.deadline.is_set:
            self.set_deadline()
