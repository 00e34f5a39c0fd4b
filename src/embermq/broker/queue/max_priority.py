"""x-max-priority: a level for each priority up to the largest, made when the first message needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.queue.level import Level

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.classic import ClassicQueue

HIGH_PRIORITY = 5  # 5-9 is the higher of the two levels that AMQP asks for


class Priorities:
    def __init__(self, queue: ClassicQueue, priority_max: int) -> None:
        self.queue = queue
        self.priority_max = priority_max
        self.levels: dict[int, Level] = {0: queue.low}
        queue.levels = [queue.low]

    def level_for(self, message: Message) -> Level:
        return self.level(min(message.priority, self.priority_max))

    def level(self, priority: int) -> Level:
        level = self.levels.get(priority)
        if level is None:
            queue = self.queue
            level = Level(queue, queue.vhost.turn, queue.durable, queue.vhost.storage, self.log_id(priority))
            level.take_settings(queue.low)
            self.levels[priority] = level
            queue.levels = [self.levels[known] for known in sorted(self.levels, reverse=True)]
        return level

    def log_id(self, priority: int) -> str:
        return f"{self.queue.id}.p{priority:03d}"

    def before_recovery(self) -> None:
        """Make the levels that have a log."""
        storage = self.queue.vhost.storage
        if storage is not None:
            for priority in range(1, self.priority_max + 1):
                if storage.has_log(self.log_id(priority)):
                    self.level(priority)
