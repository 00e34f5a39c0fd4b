"""Work that one turn of the loop gathers, done once before the loop sleeps.

Publishing, acknowledging and consuming only mark: a queue that may have something to deliver, a connection
that has something to send. `run` is scheduled at the first mark of a turn; it drains the queues, then lets
every marked sink send all it has in one write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Drainable(Protocol):
    dirty: bool

    def drain(self) -> bool:
        """Deliver what can be delivered; True when some is left for the next turn."""
        ...


class Sink(Protocol):
    dirty: bool

    def end_turn(self) -> None:
        """Send what the turn has put together."""
        ...


class Turn:
    __slots__ = ("queues", "schedule", "scheduled", "sinks")

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self.schedule = schedule
        self.scheduled = False
        self.queues: list[Drainable] = []
        self.sinks: list[Sink] = []

    def wake(self) -> int:
        if not self.scheduled:
            self.scheduled = True
            self.schedule(self.run)
        return 0

    def add_queue(self, queue: Drainable) -> int:
        """Mark a queue; it looks after its own `dirty` flag so that marking twice costs nothing."""
        self.queues.append(queue)
        self.wake()
        return 0

    def add_sink(self, sink: Sink) -> int:
        self.sinks.append(sink)
        self.wake()
        return 0

    def run(self) -> None:
        self.scheduled = False
        queues = self.queues
        self.queues = []
        for queue in queues:
            queue.dirty = False
            if queue.drain() and not queue.dirty:
                queue.dirty = True
                self.add_queue(queue)
        sinks = self.sinks
        self.sinks = []
        for sink in sinks:
            sink.dirty = False
            sink.end_turn()
