"""Messages that come back in great numbers: a channel ends and had taken millions.

They come back in pieces. Until all of them are here they count as out with consumers; then they are ready,
all at once and each in its original place. They do not go into the ring, which has the messages that leave
next: they stand beside it as `Runs`, and the ring gets the first of them as it empties. So nobody has to wait
while millions are sorted, and whoever comes in the middle gets what he would have got otherwise.

A single one that comes back to a deep ring stands beside it, too: to find its place there would take as long
as the ring is deep, for each of thousands that a client gives back one by one.

Invariant: while a level has runs, its ring is not empty, and its first message comes before all of theirs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.level import Entry, Level
    from embermq.broker.queue.queue import Queue

PIECE_COUNT = 256  # messages in one go
RUN_COUNT_MAX = 4096
BROUGHT_COUNT = 1024  # messages that the ring gets at a time
ENDLESS = 1 << 63  # above every sequence

by_sequence = attrgetter("sequence")

# Did a try to process the message fail, or does it come back untouched? Only tries count for the limit.
HasFailed = Callable[["Entry"], bool]


def failed(entry: Entry) -> bool:
    return True


def untouched(entry: Entry) -> bool:
    return False


def before_sequence(entry: Entry) -> int:
    """For runs, which stand from their ends."""
    return -entry.sequence


class Runs:
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

    def merge(self, others: Runs) -> None:
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

    def in_order(self, first: int = 0) -> Iterator[Entry]:
        """Those from a sequence on, left where they are."""
        return heapq.merge(*(from_sequence(run, first) for _, run in self.heap), key=by_sequence)


def from_sequence(run: list[Entry], first: int) -> Iterator[Entry]:
    # A run stands from its end: the keys must rise for bisect.
    stop = len(run) - bisect_left(run[::-1], first, key=by_sequence) if first else len(run)
    return (run[index] for index in range(stop - 1, -1, -1))


def body_bytes_of(entries: Iterable[Entry]) -> int:
    return sum(entry.message.size - entry.message.header_size for entry in entries)


def take_back(level: Level, runs: Runs) -> None:
    """They were out and are ready again."""
    level.queue.correct(runs.count, runs.body_bytes, -runs.count, -runs.body_bytes)
    level.delivered_up_to = max(level.delivered_up_to, runs.last)
    if level.returned is None:
        level.returned = runs
    else:
        level.returned.merge(runs)
    bring(level)


def put_back(level: Level, entries: list[Entry]) -> None:
    """Entries that were taken out return, each to its original place."""
    run = sorted(entries, key=by_sequence)
    if level.ring.count <= BROUGHT_COUNT or run[-1].sequence > level.delivered_up_to:
        level.insert(run)
        return
    if level.returned is None:
        level.returned = Runs()
    level.returned.add(run)
    bring(level)


def bring(level: Level) -> None:
    """If the ring has come to where the messages beside it begin, let it have the first of them."""
    runs, ring = level.returned, level.ring
    while runs is not None and runs.heap and (ring.count == 0 or runs.first < ring.front().sequence):
        # No more than find their places near its beginning.
        below = ring.at(BROUGHT_COUNT).sequence if ring.count > BROUGHT_COUNT else ENDLESS
        level.insert(runs.take(BROUGHT_COUNT, below))
    if runs is not None and not runs.heap:
        level.returned = None


def give_back(
    blocks: list[Collection[Entry]],
    release: Callable[[list[Entry]], object],
    has_failed: HasFailed = failed,
) -> Pieces:
    """Give deliveries back to their queues, each to its place. The blocks are used up.

    `release` is told first: they are no longer out with their consumers.
    """
    gathered: dict[Queue, Gathered] = {}
    blocks.reverse()
    while blocks:
        entries = iter(blocks.pop())
        while piece := list(islice(entries, PIECE_COUNT)):
            release(piece)
            for queue, returned in by_queue(piece).items():
                if queue not in gathered:
                    gathered[queue] = Gathered(queue)
                gathered[queue].take(returned, has_failed)
            yield
    for each in gathered.values():
        yield from each.arrive()


def by_queue(entries: Iterable[Entry]) -> dict[Queue, list[Entry]]:
    found: dict[Queue, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.queue, []).append(entry)
    return found


class Gathered:
    """What has come back to a queue so far, while more is to come."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.runs: dict[Level, Runs] = {}

    def take(self, entries: list[Entry], has_failed: HasFailed) -> None:
        by_level: dict[Level, list[Entry]] = {}
        for entry in sorted(self.queue.receive(entries, has_failed), key=by_sequence):
            by_level.setdefault(entry.level, []).append(entry)
        for level, run in by_level.items():
            self.runs.setdefault(level, Runs()).add(run)

    def arrive(self) -> Pieces:
        """All are here."""
        queue = self.queue
        for level, runs in self.runs.items():
            if queue.deleted:
                yield from dispose_of(queue, runs)
            else:
                take_back(level, runs)
        queue.returned()


def dispose_of(queue: Queue, runs: Runs) -> Pieces:
    """The queue is gone; the messages go where those went that it had."""
    while runs.heap:
        queue.requeue(runs.take(PIECE_COUNT))
        yield


def forget_all(level: Level, runs: Runs) -> Pieces:
    """Nobody wants them any more, in memory or on disk."""
    while runs.heap:
        for entry in runs.heap.pop()[1]:
            level.forget(entry)
        yield
