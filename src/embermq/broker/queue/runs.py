"""Sorted runs of entries: deliveries that were returned to a level and wait beside its ring.

The ring has the messages that leave next. To sort a million returned ones into it would take seconds, and to
find the place of a single one in a deep ring as long as the ring is deep. As sorted runs they are added at
once, and the ring gets the first of them as it empties (`Level.merge_returned`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.queue.level import Entry

RUN_COUNT_MAX = 4096
ENDLESS = 1 << 63  # above every sequence

by_sequence = attrgetter("sequence")


def before_sequence(entry: Entry) -> int:
    """The key of a run, which is stored from its end."""
    return -entry.sequence


class SortedRuns:
    """Entries of one level in runs, each in order; what is in different runs may lie between each other."""

    __slots__ = ("body_bytes", "count", "heap", "last", "latest")

    def __init__(self) -> None:
        self.heap: list[tuple[int, list[Entry]]] = []  # (first sequence, the run from its end)
        self.latest: list[Entry] = []  # the run that was added last, or what is left of it
        self.count = 0
        self.body_bytes = 0
        self.last = 0  # no sequence is higher

    def add(self, run: list[Entry]) -> None:
        """Take over a run that is in order."""
        latest = self.latest
        run.reverse()
        self.count += len(run)
        self.body_bytes += body_bytes_of(run)
        self.last = max(self.last, run[0].sequence)
        if latest and latest[0].sequence < run[-1].sequence and len(latest) + len(run) <= RUN_COUNT_MAX:
            latest[:0] = run  # it goes on behind the one before
        else:
            self.latest = run
            heapq.heappush(self.heap, (run[-1].sequence, run))

    def merge(self, others: SortedRuns) -> None:
        for each in others.heap:
            heapq.heappush(self.heap, each)
        self.count += others.count
        self.body_bytes += others.body_bytes
        self.last = max(self.last, others.last)

    @property
    def first(self) -> int:
        """The lowest sequence."""
        return self.heap[0][0]

    def take(self, count: int, below: int = ENDLESS) -> list[Entry]:
        """The first so many, in order, of those with a lower sequence."""
        taken: list[Entry] = []
        heap = self.heap
        while heap and (left := count - len(taken)) > 0 and heap[0][0] < below:
            run = heap[0][1]
            # The first run, up to where the next begins: as a rule that is all of it.
            bound = min(below, *(each[0] for each in heap[1:3])) if len(heap) > 1 else below
            wanted = run[-left:]
            if wanted[0].sequence >= bound:
                wanted = wanted[bisect_right(wanted, -bound, key=before_sequence) :]
            assert wanted, "no two runs have the same message"
            del run[-len(wanted) :]
            wanted.reverse()
            taken += wanted
            if run:
                heapq.heapreplace(heap, (run[-1].sequence, run))
            else:
                heapq.heappop(heap)
        self.body_bytes -= body_bytes_of(taken)
        self.count -= len(taken)
        return taken

    def remove(self, sequences: set[int]) -> None:
        """Take those out of them that are here."""
        low, high = min(sequences), max(sequences)
        kept: list[tuple[int, list[Entry]]] = []
        for first, run in self.heap:
            if first <= high and run[0].sequence >= low:
                left = [entry for entry in run if entry.sequence not in sequences]
                self.count -= len(run) - len(left)
                self.body_bytes -= body_bytes_of(run) - body_bytes_of(left)
                run = left
            if run:
                kept.append((run[-1].sequence, run))
        heapq.heapify(kept)
        self.heap = kept
        self.latest = []

    def take_one(self, sequence: int) -> Entry | None:
        """The entry with that sequence, taken out; None: it is not here."""
        for place, (first, run) in enumerate(self.heap):
            if not first <= sequence <= run[0].sequence:
                continue
            index = bisect_left(run, -sequence, key=before_sequence)
            if run[index].sequence != sequence:
                continue
            entry = run.pop(index)
            if not run:
                del self.heap[place]
            else:
                self.heap[place] = (run[-1].sequence, run)
            if not run or sequence == first:
                heapq.heapify(self.heap)
            self.count -= 1
            self.body_bytes -= entry.message.size - entry.message.header_size
            return entry
        return None

    def in_order(self, first: int = 0) -> Iterator[Entry]:
        """Those from a sequence on, left where they are."""
        return heapq.merge(*(from_sequence(run, first) for _, run in self.heap), key=by_sequence)


def from_sequence(run: list[Entry], first: int) -> Iterator[Entry]:
    # A run stands from its end: the keys must rise for bisect.
    stop = len(run) - bisect_left(run[::-1], first, key=by_sequence) if first else len(run)
    return (run[index] for index in range(stop - 1, -1, -1))


def body_bytes_of(entries: Iterable[Entry]) -> int:
    return sum(entry.message.size - entry.message.header_size for entry in entries)
