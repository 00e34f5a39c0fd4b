"""What a channel in tx mode holds back until commit: publishes, and what was acknowledged or rejected."""

from __future__ import annotations

from embermq.broker.level import Entry
from embermq.broker.message import Message
from embermq.broker.queue import Queue


class Transaction:
    def __init__(self) -> None:
        self.publishes: list[tuple[Message, tuple[Queue, ...], int]] = []
        self.delayed: list[tuple[Message, int, tuple[str, ...]]] = []  # due, further routing keys
        self.acks: list[Entry] = []
        self.rejects: list[tuple[list[Entry], bool]] = []  # entries, requeue

    def held_entries(self) -> list[Entry]:
        """Every delivery that this transaction would settle; a rollback leaves them unacknowledged."""
        entries = list(self.acks)
        for rejected, _ in self.rejects:
            entries.extend(rejected)
        return entries
