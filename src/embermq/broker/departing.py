"""The messages of a deleted queue: dead letters, where it has an exchange for such (001, queue.delete).

The queue is gone for everybody at once; a long one is emptied in steps between which others have their turn,
and its files go with the last message. A clean stop waits for that; a crash in between loses the rest, as the
deletion itself would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.queue import Queue
    from embermq.broker.vhost import VirtualHost

REASON = "deleted"
NEXT_MS = 1  # later, and not at once: the timetable goes on until nothing is due
STEP_COUNT_MAX = 5000  # messages in one go


class Departing:
    """Queues of one virtual host that are deleted and not yet empty."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.queues: list[Queue] = []

    def add(self, queue: Queue) -> None:
        """A queue that is deleted: empty it, drop it."""
        rules = queue.rules
        if rules is None or rules.dead_letter_exchange is None or self.vhost.closing:
            self.drop(queue)
            return
        self.queues.append(queue)
        self.step(queue)

    def step(self, queue: Queue) -> None:
        assert queue.rules is not None
        for _ in range(STEP_COUNT_MAX):
            entry = queue.take_head()
            if entry is None:
                self.queues.remove(queue)
                self.drop(queue)
                return
            queue.rules.dispose([entry], REASON)
        timetable = self.vhost.turn.timetable
        if timetable is None:
            self.step(queue)
        elif len(self.queues) == 1 or queue is self.queues[0]:
            timetable.ask(self.vhost.turn.now_ms + NEXT_MS, self)

    def on_due(self, now_ms: int) -> None:
        for queue in list(self.queues):
            self.step(queue)

    def finish(self) -> None:
        """Before a clean stop."""
        while self.queues:
            self.on_due(0)

    def drop(self, queue: Queue) -> None:
        queue.drop()
        if queue.rules is not None:
            queue.rules.drop()
