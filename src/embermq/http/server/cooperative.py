"""Cooperative scheduling of long work: small steps, between which messages pass.

A message that comes in the middle of a step waits for its end, so steps are short, and all that HTTP does
takes its steps through one scheduler: one in a pass of the loop, however many requests there are. While
messages go by, there is a rest after a few; while the loop has nothing else to do, work goes on at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from embermq.broker.turn import Turn

STEP_S = 0.00005  # of work in one piece
STEPS_IN_A_ROW = 3  # then there is a rest
REST_S = 0.001  # so that about a seventh of the loop's time goes into it at most
QUIET_S = 0.05  # without a turn of the broker: there is no message to hold up
PILE_ITEMS = 64  # so many, or a few times as many, are sorted in one step

Item = TypeVar("Item")
Ranked = tuple[Any, int, Item]


class StepScheduler:
    """Lets one through in a pass of the loop, in the order in which they came."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.turns = turn.count
        self.busy_until = 0.0
        self.step_count = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def passage(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self.waiting.append(future)
        if len(self.waiting) == 1:
            self.next_one(loop)
        return future

    def next_one(self, loop: asyncio.AbstractEventLoop) -> None:
        self.step_count += 1
        if self.step_count % STEPS_IN_A_ROW == 0 and self.is_needed():
            loop.call_later(REST_S, self.open, loop)
        else:
            loop.call_soon(self.open, loop)

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        future = self.waiting.popleft()
        if not future.done():  # else its request has gone
            future.set_result(None)
        if self.waiting:
            self.next_one(loop)

    def is_needed(self) -> bool:
        """Did messages go by just now?"""
        now = time.perf_counter()
        if self.turn.count != self.turns:
            self.turns = self.turn.count
            self.busy_until = now + QUIET_S
        return now < self.busy_until


class Steps:
    """The work of one request, which pauses between its steps."""

    def __init__(self, scheduler: StepScheduler) -> None:
        self.scheduler = scheduler
        self.began = time.perf_counter()

    async def pause(self) -> None:
        """Between two small pieces of work: waits for its turn when a step is over."""
        if time.perf_counter() - self.began >= STEP_S:
            await self.next()

    async def next(self) -> None:
        """What comes next is a step of its own."""
        await self.scheduler.passage()
        self.began = time.perf_counter()

    async def sorted(
        self, items: Sequence[Item], key: Callable[[Item], Any], reverse: bool, count: int
    ) -> list[Item]:
        """The first so many in order, as `sorted` would have them: put on piles by a sample of what is there,
        and only the piles that are needed are sorted."""
        sign = -1 if reverse else 1  # those that are equal stay as they were, also the other way round
        ranked: list[Ranked[Item]] = []
        for place, item in enumerate(items):
            ranked.append((key(item), sign * place, item))  # no two places are equal: items are not compared
            await self.pause()
        bounds = sorted(random.sample(ranked, len(ranked) // PILE_ITEMS))
        piles: list[list[Ranked[Item]]] = [[] for _ in range(len(bounds) + 1)]
        for entry in ranked:
            piles[bisect(bounds, entry)].append(entry)
            await self.pause()
        found: list[Item] = []
        for pile in reversed(piles) if reverse else piles:
            if len(found) >= count:
                break
            pile.sort(reverse=reverse)
            found += [item for _, _, item in pile]
            await self.pause()
        return found[:count]
