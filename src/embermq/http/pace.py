"""Long work in small steps, with rests between in which messages pass."""

from __future__ import annotations

import asyncio
import time

STEP_S = 0.0004  # of work in one piece
REST_S = 0.001  # so that less than a third of the loop's time goes into it


class Pace:
    def __init__(self) -> None:
        self.began = time.perf_counter()

    async def breathe(self) -> None:
        """Between two small pieces of work: rests when it is time to."""
        if time.perf_counter() - self.began > STEP_S:
            await asyncio.sleep(REST_S)
            self.began = time.perf_counter()
