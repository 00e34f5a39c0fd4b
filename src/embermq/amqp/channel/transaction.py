"""The transaction of a channel in tx mode: publishes, acks and rejects that wait for the commit."""

from __future__ import annotations

from embermq.amqp.channel.channel import Blocks
from embermq.broker.message.message import Message
from embermq.broker.queue.queue import Queue


class Transaction:
    def __init__(self) -> None:
        self.publishes: list[tuple[Message, tuple[Queue, ...], int]] = []
        self.delayed: list[tuple[Message, int, tuple[str, ...]]] = []  # due, further routing keys
        self.acks: Blocks = []
        self.rejects: list[tuple[Blocks, bool]] = []  # deliveries, requeue

    def reject(self, blocks: Blocks, requeue: bool) -> None:
        """What is rejected one by one goes together: giving back has a cost for each time, too."""
        if self.rejects and self.rejects[-1][1] == requeue:
            self.rejects[-1][0].extend(blocks)
        else:
            self.rejects.append((blocks, requeue))

    def held_blocks(self) -> Blocks:
        """Every delivery that this transaction would settle; a rollback leaves them unacknowledged."""
        return [*self.acks, *(block for rejected, _ in self.rejects for block in rejected)]
