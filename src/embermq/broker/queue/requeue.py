"""Requeueing very many deliveries in pieces: a channel closes with millions unacknowledged.

Until all of them are back they count as unacknowledged; then all are ready at once, each in its original
place (`runs`). So other connections do not wait while millions are sorted, and a consumer that is served
meanwhile gets the messages that it would have got otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from embermq.broker.queue.queue import HasFailed, Queue, failed
from embermq.broker.queue.runs import SortedRuns, body_bytes_of, by_sequence

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.level import Entry, Level

PIECE_COUNT = 256  # messages in one go


def give_back(
    blocks: list[Collection[Entry]],
    release: Callable[[list[Entry]], object],
    has_failed: HasFailed = failed,
) -> Pieces:
    """Give deliveries back to their queues, each to its place. The blocks are used up.

    `release` is told first: they are no longer out with their consumers.
    """
    found: dict[Queue, Returned] = {}
    blocks.reverse()
    while blocks:
        entries = iter(blocks.pop())
        while piece := list(islice(entries, PIECE_COUNT)):
            release(piece)
            for queue, returned in by_queue(piece).items():
                if queue not in found:
                    found[queue] = Returned(queue)
                found[queue].take(returned, has_failed)
            yield
    for each in found.values():
        yield from each.arrive()


def by_queue(entries: Iterable[Entry]) -> dict[Queue, list[Entry]]:
    found: dict[Queue, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.queue, []).append(entry)
    return found


class Returned:
    """What has come back to a queue so far, while more is to come."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.runs: dict[Level, SortedRuns] = {}
        self.on_disk: list[list[Entry]] = []  # what need not be in memory, in pieces

    def take(self, entries: list[Entry], has_failed: HasFailed) -> None:
        by_level: dict[Level, list[Entry]] = {}
        for entry in sorted(self.queue.receive(entries, has_failed), key=by_sequence):
            by_level.setdefault(entry.level, []).append(entry)
        for level, run in by_level.items():
            if level.held is not None:
                self.on_disk.append([entry for entry in run if level.stays_on_disk(entry.sequence)])
                run = [entry for entry in run if not level.stays_on_disk(entry.sequence)]
                level.release(entry.sequence for entry in run)
            if run:
                self.runs.setdefault(level, SortedRuns()).add(run)

    def arrive(self) -> Pieces:
        """All are here."""
        queue = self.queue
        for level, runs in self.runs.items():
            if queue.deleted:
                yield from dispose_of(queue, runs)
            else:
                level.take_back(runs)
        for piece in self.on_disk:  # the first first, so that none overtakes another
            if queue.deleted:
                queue.requeue(piece)
            else:
                queue.correct(0, 0, -len(piece), -body_bytes_of(piece))
                queue.put_back(piece)
            yield
        queue.returned()


def dispose_of(queue: Queue, runs: SortedRuns) -> Pieces:
    """The queue is gone; the messages go where those went that it had."""
    while runs.heap:
        queue.requeue(runs.take(PIECE_COUNT))
        yield
