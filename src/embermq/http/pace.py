"""Long work in small steps, with rests between in which messages pass.

A message that comes in the middle of a step waits for its end, so steps are short. While messages go by,
there is a rest after each; while nobody needs the loop, work goes on at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from embermq.broker.turn import Turn

STEP_S = 0.0001  # of work in one piece
REST_S = 0.001  # so that less than a tenth of the loop's time goes into it
QUIET_S = 0.05  # without a turn of the broker: nobody is there who could be held up
SORTED_TOGETHER = 256  # so many can be sorted in one step

Item = TypeVar("Item")


class Pace:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.turns = turn.count
        self.began = time.perf_counter()
        self.busy_until = 0.0

    async def breathe(self) -> None:
        """Between two small pieces of work: rests when it is time to."""
        now = time.perf_counter()
        if now - self.began < STEP_S:
            return
        if self.turn.count != self.turns:
            self.turns = self.turn.count
            self.busy_until = now + QUIET_S
        await asyncio.sleep(REST_S if now < self.busy_until else 0)
        self.began = time.perf_counter()

    async def sorted(
        self, items: Sequence[Item], key: Callable[[Item], Any], reverse: bool, count: int
    ) -> list[Item]:
        """The first so many in order, as `sorted` would have them: small parts are sorted, then merged."""
        parts: list[Iterator[tuple[Any, int, Item]]] = []
        sign = -1 if reverse else 1  # those that are equal stay as they were, also the other way round
        for start in range(0, len(items), SORTED_TOGETHER):
            part: list[tuple[Any, int, Item]] = []
            for place, item in enumerate(items[start : start + SORTED_TOGETHER], start):
                part.append((key(item), sign * place, item))
                await self.breathe()
            part.sort(key=without_item, reverse=reverse)
            parts.append(iter(part))
            await self.breathe()
        found: list[Item] = []
        for _, _, item in islice(merge(*parts, key=without_item, reverse=reverse), count):
            found.append(item)
            await self.breathe()
        return found


def without_item(entry: tuple[Any, int, Any]) -> tuple[Any, int]:
    return entry[:2]
