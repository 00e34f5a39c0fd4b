"""x-dead-letter-strategy = at-least-once: letters that no queue takes are kept and tried again.

A letter that a full queue refuses, or that finds no queue, is lost with the strategy at-most-once. Here its
message stays: it is neither ready nor with a consumer, but on disk where it was, so that a restart finds it
again in its queue. The letter is tried again every second until every queue that it is for has taken it.

The first thousand are in memory. Of those behind them there are numbers of eight bytes (`LettersOnDisk`);
they are read again where they stand, in the log of their queue, when it is their turn. Only messages that are
not on disk, because they or their queue are transient, have to wait in memory.

A queue that drops from its head when it is full would be filled with such messages, so there the strategy
does not hold, as in RabbitMQ: x-overflow must be reject-publish, or there must be no limit.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.dead_letter.router import DeadLetters
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.message.message import Message
    from embermq.broker.queue.features import QueueRules
    from embermq.broker.queue.level import Entry, Level
    from embermq.broker.queue.queue import Queue
    from embermq.store.log.record import Record

AT_LEAST_ONCE = "at-least-once"
RETRY_MS = 1000
RETRY_COUNT_MAX = 10_000  # letters
PIECE_COUNT = 64  # of these
IN_MEMORY_MAX = 1000
READ_BYTES = 64 * 1024


def holds_letters(arguments: dict[str, object]) -> bool:
    """Does a queue with these arguments keep dead letters that no queue takes?"""
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


class LettersOnDisk:
    """Letters of one level that are alike but for their messages: these are on disk, here their sequences."""

    def __init__(self, rules: QueueRules, level: Level, reason: str, taken_by: frozenset[Queue]) -> None:
        self.rules = rules
        self.level = level
        self.reason = reason
        self.taken_by = taken_by
        self.sequences = array("Q")
        self.begin = 0  # those before are taken

    def __len__(self) -> int:
        return len(self.sequences) - self.begin

    def add(self, entry: Entry) -> None:
        self.sequences.append(entry.sequence)
        self.level.remember_returns(entry)

    def take(self, count: int) -> list[Held]:
        """The first so many, read again; without those that are gone, with their queue or by damage."""
        wanted = self.sequences[self.begin : self.begin + count]
        records = self.read(wanted)  # which may fail: then nothing is taken
        self.begin += len(wanted)
        if self.begin * 2 > len(self.sequences):
            del self.sequences[: self.begin]
            self.begin = 0
        entries = [self.level.entry_of(record) for record in records]
        return [Held(self.rules, entry.message, entry, self.reason, set(self.taken_by)) for entry in entries]

    def read(self, sequences: array[int]) -> list[Record]:
        log = self.level.log
        if log is None:
            return []
        reader = log.new_reader()
        found: list[Record] = []
        block: dict[int, Record] = {}
        for sequence in sequences:
            if sequence not in block:
                block = {record.sequence: record for record in reader.read(sequence, READ_BYTES)}
            if sequence in block:
                found.append(block[sequence])
        return found


class HeldLetters:
    """Of one virtual host."""

    def __init__(self, letters: DeadLetters) -> None:
        self.letters = letters
        self.waiting: deque[Held] = deque()
        self.on_disk: dict[tuple[QueueRules, Level, str, frozenset[Queue]], LettersOnDisk] = {}
        self.counts: Counter[Queue] = Counter()
        self.asked = False

    def add(self, held: Held) -> None:
        if self.letters.vhost.closing:
            return  # no queue will take it
        self.counts[held.rules.queue] += 1
        entry = held.entry
        # Where some are on disk, all go behind them: each must have its turn.
        full = len(self.waiting) >= IN_MEMORY_MAX or bool(self.on_disk)
        if entry is not None and entry.stored and full:
            key = (held.rules, entry.level, held.reason, frozenset(held.taken_by))
            if key not in self.on_disk:
                self.on_disk[key] = LettersOnDisk(*key)
            self.on_disk[key].add(entry)
        else:
            self.waiting.append(held)
        self.look_again()

    def look_again(self) -> None:
        turn = self.letters.vhost.turn
        if not self.asked and turn.timers is not None:
            self.asked = True
            turn.timers.ask(turn.now_ms + RETRY_MS, self)

    def on_due(self, now_ms: int) -> None:
        self.letters.vhost.turn.incremental_work.begin(self.retry(), self.retried, about=self)

    def retry(self) -> Pieces:
        """Try everything once, unless that is very much."""
        left = min(sum(self.counts.values()), RETRY_COUNT_MAX)
        while left > 0:
            for held in self.take(min(left, PIECE_COUNT)):
                if held.rules.dead_letter_exchange is None:
                    assert held.entry is not None
                    held.entry.level.forget(held.entry)  # a policy that sent it on is gone
                else:
                    self.letters.move(held)
            left -= PIECE_COUNT
            yield

    def retried(self) -> None:
        self.asked = False
        if self.counts:
            self.look_again()

    def take(self, count: int) -> list[Held]:
        """The first ones, out of memory and then from disk."""
        taken: list[Held] = []
        while self.waiting and len(taken) < count:
            taken.append(self.uncounted(self.waiting.popleft()))
        for key, letters in list(self.on_disk.items()):
            if len(taken) >= count:
                break
            wanted = min(count - len(taken), len(letters))
            try:
                taken += letters.take(wanted)
            except OSError:
                if taken:
                    break  # these are on their way: the next time nothing comes before the failure
                raise
            self.uncount(letters.rules.queue, wanted)
            del self.on_disk[key]
            if len(letters):
                self.on_disk[key] = letters  # the others come first next time
        return taken

    def uncounted(self, held: Held) -> Held:
        self.uncount(held.rules.queue, 1)
        return held

    def uncount(self, queue: Queue, count: int) -> None:
        self.counts[queue] -= count
        if not self.counts[queue]:
            del self.counts[queue]

    def count(self, queue: Queue) -> int:
        return self.counts[queue]
