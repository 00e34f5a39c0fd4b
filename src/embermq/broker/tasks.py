"""Registry of tasks (`transfer`): those that run, and the last that have ended."""

from __future__ import annotations

import itertools

from embermq.broker.message_filter import EVERYTHING, MessageFilter
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import User
from embermq.broker.transfer import Task
from embermq.broker.turn import Turn
from embermq.errors import PreconditionFailed

RUNNING_MAX = 16
ENDED_KEPT_MAX = 100


class Tasks:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.numbers = itertools.count(1)
        self.running: dict[int, Task] = {}
        self.past: dict[int, Task] = {}

    def start(
        self,
        kind: str,
        source: Queue,
        user: User,
        target: Queue | None = None,
        wanted: MessageFilter = EVERYTHING,
        limit: int | None = None,
    ) -> Task:
        if len(self.running) >= RUNNING_MAX:
            raise PreconditionFailed(f"{RUNNING_MAX} tasks are running; wait, or cancel one")
        task = Task(self, next(self.numbers), kind, source, target, wanted, limit, user)
        self.running[task.number] = task
        self.turn.incremental_work.begin(task.pieces(), about=task)
        return task

    def ended(self, task: Task) -> None:
        self.running.pop(task.number, None)
        self.past[task.number] = task
        while len(self.past) > ENDED_KEPT_MAX:
            del self.past[next(iter(self.past))]

    def all(self) -> list[Task]:
        return [*self.past.values(), *self.running.values()]

    def get(self, number: int) -> Task | None:
        return self.running.get(number) or self.past.get(number)

    def cancel_all(self) -> bool:
        """True while some still wait for the disk."""
        for task in list(self.running.values()):
            task.cancel()
        return bool(self.running)
