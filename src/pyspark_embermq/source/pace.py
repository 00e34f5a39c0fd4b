"""Pace of a streaming query: when the next batch may begin, and how many rows a rate leaves for it.

`minOffsetsPerTrigger` and `maxTriggerDelay` are Kafka's: a batch begins when so many messages wait, or when
the last one is so long ago. `maxRecordsPerSecond` is a token bucket: what a trigger may read grows with the
time since the trigger before, and idle time is not saved up beyond a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark_embermq.options import Options, milliseconds

BURST_S = 1.0


class Pace:
    """Of one query, in the driver's process."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = options.max_records_per_second
        self.waiting_min = options.min_offsets_per_trigger
        self.delay_s = milliseconds(options.max_trigger_delay) / 1000
        self.clock = clock
        self.batch_s = self.asked_s = clock()
        self.rows = float(self.rate) * BURST_S

    @property
    def counts_waiting(self) -> bool:
        """Whether it matters how many messages wait."""
        return self.waiting_min > 0

    def is_due(self, waiting: int) -> bool:
        return waiting >= self.waiting_min or self.clock() - self.batch_s >= self.delay_s

    def row_limit(self, rows: int | None, wait: bool = False) -> int | None:
        """At most so many, and as many as the rate leaves: it may be none, unless this is to wait for one."""
        if not self.rate:
            return rows
        self.refill()
        if wait and self.rows < 1:
            time.sleep((1 - self.rows) / self.rate)
            self.refill()
            self.rows = max(self.rows, 1.0)  # whatever the clock's resolution is
        return int(self.rows) if rows is None else min(rows, int(self.rows))

    def refill(self) -> None:
        now = self.clock()
        passed_s = now - self.asked_s
        self.asked_s = now
        self.rows = min(self.rows + passed_s * self.rate, self.rate * max(passed_s, BURST_S))

    def took(self, rows: int) -> None:
        """A batch of so many rows begins."""
        self.batch_s = self.clock()
        self.rows -= rows if self.rate else 0
