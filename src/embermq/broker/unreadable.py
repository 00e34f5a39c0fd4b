"""Queues whose messages cannot be read just now: the disk does not answer, or there are too many open files.

Nothing of them is lost, and nobody need touch them: each is looked at again a little later, until it works.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.turn import Drainable, Turn

log = logging.getLogger("embermq.storage")

RETRY_MS = 1000


class Unreadable:
    """Those that wait for their next try. Until then they are left alone: a try may cost the disk much."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.queues: set[Drainable] = set()

    def add(self, queue: Drainable, error: OSError) -> None:
        log.error("cannot read from %r: %s; its consumers wait until this is mended", queue, error)
        if self.turn.timetable is not None:
            if not self.queues:
                self.turn.timetable.ask(self.turn.now_ms + RETRY_MS, self)
            self.queues.add(queue)

    def on_due(self, now_ms: int) -> None:
        queues, self.queues = self.queues, set()
        for queue in queues:
            if not queue.dirty:
                queue.dirty = True
                self.turn.add_queue(queue)
