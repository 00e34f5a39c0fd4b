"""What queues have counted, added up; and kept when they are gone, so that totals never go down."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.queue import Queue


class Tally:
    __slots__ = ("acked", "delivered", "published", "redelivered")

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.acked = 0
        self.redelivered = 0

    def add_queue(self, queue: Queue) -> None:
        self.published += queue.published_count
        self.delivered += queue.delivered_count
        self.acked += queue.acked_count
        self.redelivered += queue.redelivered_count

    def add(self, other: Tally) -> None:
        self.published += other.published
        self.delivered += other.delivered
        self.acked += other.acked
        self.redelivered += other.redelivered
