"""Time series of a few numbers of one object: rows of samples in rings, each ring finer or coarser.

A row is written only when something has changed, so a thing that rests costs nothing, and what it was at a
time is the last row at or before that. Rows are plain 64-bit numbers in an array:

    time_ms value value ... | time_ms value value ... | ...      oldest overwritten when the ring is full
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

STEP_MS = 5000  # between two samples, as RabbitMQ's


class Ring:
    __slots__ = ("next_row", "rows", "rows_max", "step_ms", "width")

    def __init__(self, width: int, step_ms: int, rows_max: int) -> None:
        self.width = width + 1
        self.step_ms = step_ms
        self.rows_max = rows_max
        self.rows = array("q")
        self.next_row = 0  # the one that the next write goes to, once the ring is full

    def __len__(self) -> int:
        return len(self.rows) // self.width

    def put(self, time_ms: int, values: Sequence[int]) -> None:
        row = array("q", (time_ms, *values))
        if len(self) < self.rows_max:
            self.rows.extend(row)
            return
        at = self.next_row * self.width
        self.rows[at : at + self.width] = row
        self.next_row = (self.next_row + 1) % self.rows_max

    def row(self, back: int) -> array[int]:
        """The row so many before the newest."""
        count = len(self)
        newest = count - 1 if count < self.rows_max else (self.next_row - 1) % count
        at = (newest - back) % count * self.width
        return self.rows[at : at + self.width]

    def newest_first(self) -> Iterator[array[int]]:
        return (self.row(back) for back in range(len(self)))


class Track:
    """What was sampled of one thing. `resolutions` are (seconds per sample, seconds kept), finest first."""

    __slots__ = ("changed_ms", "rings", "seen")

    def __init__(
        self, width: int, resolutions: Sequence[tuple[int, int]], since_ms: int, baseline: Sequence[int]
    ) -> None:
        self.rings = [Ring(width, step_s * 1000, kept_s // step_s + 2) for step_s, kept_s in resolutions]
        self.changed_ms = 0  # the sample before which the last change was
        self.seen = 0  # the round of sampling that met the thing last
        for ring in self.rings:
            ring.put(since_ms, baseline)

    def put(self, time_ms: int, values: Sequence[int]) -> None:
        for index, ring in enumerate(self.rings):
            newest = ring.row(0)
            if newest[1:] == array("q", values):
                continue
            if index and time_ms - newest[0] < ring.step_ms:
                continue
            ring.put(time_ms, values)
            if not index:
                self.changed_ms = time_ms

    def lengthen(self, kept_s: int) -> None:
        """Keep more from now on: it is being looked at."""
        finest = self.rings[0]
        rows_max = kept_s * 1000 // finest.step_ms + 2
        if rows_max > finest.rows_max:
            longer = Ring(finest.width - 1, finest.step_ms, rows_max)
            for row in reversed(list(finest.newest_first())):
                longer.put(row[0], row[1:])
            self.rings[0] = longer

    def change(self, column: int, last_round_ms: int) -> int:
        """By how much a value changed between the last two rounds of sampling."""
        ring = self.rings[0]
        if self.changed_ms != last_round_ms or len(ring) < 2:
            return 0
        return ring.row(0)[column + 1] - ring.row(1)[column + 1]

    def samples(self, column: int, end_ms: int, age_s: int, step_s: int) -> list[tuple[int, int]]:
        """(time, value) from `end_ms` back to so long ago, newest first."""
        ring = self.ring_for(age_s, step_s)
        rows = ring.newest_first()
        row = next(rows, None)
        found: list[tuple[int, int]] = []
        oldest = 0
        for back in range(age_s // step_s + 1):
            time_ms = end_ms - back * step_s * 1000
            while row is not None and row[0] > time_ms:
                oldest, row = row[column + 1], next(rows, None)
            found.append((time_ms, oldest if row is None else row[column + 1]))
        return found

    def ring_for(self, age_s: int, step_s: int) -> Ring:
        """The coarsest ring that is fine enough; a coarser one where only that goes back so far."""
        fine = [ring for ring in self.rings if ring.step_ms <= step_s * 1000]
        best = fine[-1] if fine else self.rings[0]
        reaching = [ring for ring in self.rings if ring.rows_max * ring.step_ms >= age_s * 1000]
        if best.rows_max * best.step_ms < age_s * 1000 and reaching:
            return reaching[0]
        return best
