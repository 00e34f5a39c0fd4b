"""x-dead-letter-strategy = at-least-once: letters that nobody takes are kept and tried again.

A letter that a full queue refuses, or that finds no queue, is lost with the strategy at-most-once. Here its
message stays: it is neither ready nor with a consumer, but on disk where it was, so that a restart finds it
again in its queue. The letter is tried again every second until every queue that it is for has taken it.

A queue that drops from its head when it is full would fill the memory with such messages, so there the
strategy does not hold, as in RabbitMQ: x-overflow must be reject-publish, or there must be no limit.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.dead_letters import DeadLetters
    from embermq.broker.level import Entry
    from embermq.broker.message import Message
    from embermq.broker.queue import Queue
    from embermq.broker.rules import QueueRules

AT_LEAST_ONCE = "at-least-once"
RETRY_MS = 1000
RETRY_COUNT_MAX = 10_000  # letters in one go


def holds_letters(arguments: dict[str, object]) -> bool:
    """Does a queue with these arguments keep what nobody takes?"""
    limited = "x-max-length" in arguments or "x-max-length-bytes" in arguments
    drops_head = limited and arguments.get("x-overflow", "drop-head") == "drop-head"
    return arguments.get("x-dead-letter-strategy") == AT_LEAST_ONCE and not drops_head


@dataclass(eq=False)
class Held:
    rules: QueueRules
    message: Message
    entry: Entry | None  # None: it never was in its queue
    reason: str
    taken_by: set[Queue] = field(default_factory=set)


class HeldLetters:
    """Of one virtual host."""

    def __init__(self, letters: DeadLetters) -> None:
        self.letters = letters
        self.waiting: deque[Held] = deque()
        self.counts: Counter[Queue] = Counter()
        self.asked = False

    def add(self, held: Held) -> None:
        if self.letters.vhost.closing:
            return  # there will be nobody to take it
        self.waiting.append(held)
        self.counts[held.rules.queue] += 1
        turn = self.letters.vhost.turn
        if not self.asked and turn.timetable is not None:
            self.asked = True
            turn.timetable.ask(turn.now_ms + RETRY_MS, self)

    def on_due(self, now_ms: int) -> None:
        self.asked = False
        for _ in range(min(len(self.waiting), RETRY_COUNT_MAX)):
            held = self.taken(self.waiting.popleft())
            if held.rules.dead_letter_exchange is None:
                assert held.entry is not None
                held.entry.level.forget(held.entry)  # a policy that sent it on is gone
            else:
                self.letters.move(held)
        if self.waiting and not self.asked:
            self.add(self.taken(self.waiting.pop()))

    def taken(self, held: Held) -> Held:
        self.counts[held.rules.queue] -= 1
        if not self.counts[held.rules.queue]:
            del self.counts[held.rules.queue]
        return held

    def count(self, queue: Queue) -> int:
        return self.counts[queue]
