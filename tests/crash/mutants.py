"""Brokers that are wrong on purpose, to see whether the crash tests would notice.

A mutant replaces one function of the broker by one that is wrong, most of them only now and then. They need
interpreted sources: what is compiled cannot be replaced. As a program this file is `embermq` with the mutant
that its first argument names.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from embermq.broker.dead_letter.router import DeadLetters
from embermq.broker.queue import features as rules
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.queue.level import Level
from embermq.broker.storage import Storage
from embermq.broker.turn import Turn
from embermq.store import definitions
from embermq.store.definitions import Definitions
from embermq.store.disk.disk import Disk
from embermq.store.log import segment
from embermq.store.log.log import Log
from embermq.store.sync.committer import Committer

SELDOM = 0.02
chance = random.Random(os.getpid())


def seldom(often: float = SELDOM) -> bool:
    return chance.random() < often


def skips_a_write(write: Any) -> Any:
    def mutant(self: Log) -> None:
        if not seldom():
            write(self)

    return mutant


def loses_a_copy(append: Any) -> Any:
    def mutant(self: ClassicQueue, message: Any) -> Any:
        return 0 if seldom() else append(self, message)

    return mutant


def forgets_an_ack(forget: Any) -> Any:
    def mutant(self: Level, entry: Any) -> Any:
        return 0 if seldom() else forget(self, entry)

    return mutant


def purges_only_memory(clear: Any) -> Any:
    def mutant(self: Level) -> int:
        log, self.log = self.log, None
        self.paged_count, paged = 0, self.paged_count
        count: int = clear(self)
        self.log = log
        return count + paged

    return mutant


def turns_returned_messages_around(insert: Any) -> Any:
    def mutant(self: Level, entries: list[Any]) -> None:
        for entry in sorted(entries, key=lambda entry: entry.sequence):
            self.ring.push_front(entry)
            self.ring_bytes += entry.message.size

    return mutant


def mixes_up_the_levels(take_head: Any) -> Any:
    def mutant(self: ClassicQueue) -> Any:
        self.levels.reverse()
        try:
            return take_head(self)
        finally:
            self.levels.reverse()

    return mutant


def recovers_the_lowest_level_only(recover: Any) -> Any:
    def mutant(self: ClassicQueue, delivered_up_to: Any) -> None:
        levels, self.levels = self.levels, self.levels[-1:]
        recover(self, delivered_up_to)
        self.levels = levels

    return mutant


def does_not_mark_redelivered(recover: Any) -> Any:
    def mutant(self: Level, delivered_up_to: Any) -> Any:
        count = recover(self, delivered_up_to)
        self.redelivered_below = 0
        return count

    return mutant


def keeps_transient_messages(store: Any) -> Any:
    return lambda self, sequence, message, flags: store(self, sequence, message, 1)


def confirms_early(when_safe: Any) -> Any:
    return lambda self, callback, with_acks=False: callback()


def commits_without_acks(when_safe: Any) -> Any:
    return lambda self, callback, with_acks=False: when_safe(self, callback)


def takes_everything_for_consumed(spares: Any) -> Any:
    return lambda self, queues, turn: True


def leaves_out_the_living(keep_alive: Any) -> Any:
    return lambda buffer, begin, fill, live: begin


def skips_a_sync(sync: Any) -> Any:
    def mutant(self: Committer, batch: Any) -> None:
        if not seldom(0.05):
            sync(self, batch)

    return mutant


def syncs_no_names(sync: Any) -> Any:
    def mutant(self: Committer, batch: Any) -> None:
        batch.directories.clear()
        sync(self, batch)

    return mutant


def deletes_acks_at_once(delete: Any) -> Any:
    def mutant(self: Disk, path: str, ack_path: str) -> None:
        self._delete(ack_path)
        self._delete(path)

    return mutant


def answers_before_the_definition_is_safe(flush: Any) -> Any:
    return lambda self, callback: callback(None)


def does_not_sync_definitions(opened: Any) -> Any:
    return lambda path, synchronous, *more: opened(path, False, *more)


def forgets_the_old_at_once(after_safe: Any) -> Any:
    return lambda self, action, with_acks=False: action()


def drops_a_dead_letter(send: Any) -> Any:
    def mutant(self: DeadLetters, queue_rules: Any, message: Any, entry: Any, reason: str) -> None:
        if seldom(0.05) and entry is not None:
            entry.level.forget(entry)
        else:
            send(self, queue_rules, message, entry, reason)

    return mutant


def keeps_what_became_a_dead_letter(send: Any) -> Any:
    return lambda self, queue_rules, message, entry, reason: send(self, queue_rules, message, None, reason)


def drops_what_comes_back_too_often(returned: Any) -> Any:
    def mutant(self: rules.QueueRules, entries: list[Any]) -> list[Any]:
        self.dead_letter_exchange, kept = None, self.dead_letter_exchange
        try:
            result: list[Any] = returned(self, entries)
            return result
        finally:
            self.dead_letter_exchange = kept

    return mutant


Mutation = Callable[[Any], Any]
Place = tuple[Any, str, Mutation]

# What a power cut shows, and a kill alone does not.
ELECTRIC: dict[str, Place] = {
    "confirms early": (Storage, "when_safe", confirms_early),
    "takes everything for consumed": (Storage, "spares", takes_everything_for_consumed),
    "leaves out the living": (segment, "keep_alive", leaves_out_the_living),
    "commits without acks": (Storage, "when_safe", commits_without_acks),
    "skips a sync": (Committer, "_sync", skips_a_sync),
    "syncs no names": (Committer, "_sync", syncs_no_names),
    "deletes acks at once": (Disk, "_delete_segment", deletes_acks_at_once),
    "answers before the definition is safe": (Definitions, "flush", answers_before_the_definition_is_safe),
    "does not sync definitions": (definitions, "_open", does_not_sync_definitions),
    "forgets the old at once": (Turn, "after_safe", forgets_the_old_at_once),
    "turns returned messages around": (Level, "insert", turns_returned_messages_around),
}
# What both show.
PLAIN: dict[str, Place] = {
    "skips a write": (Log, "write", skips_a_write),
    "loses a copy": (ClassicQueue, "append", loses_a_copy),
    "forgets an ack": (Level, "forget", forgets_an_ack),
    "purges only memory": (Level, "clear", purges_only_memory),
    "mixes up the levels": (ClassicQueue, "take_head", mixes_up_the_levels),
    "recovers the lowest level only": (ClassicQueue, "recover", recovers_the_lowest_level_only),
    "does not mark redelivered": (Level, "recover", does_not_mark_redelivered),
    "keeps transient messages": (Level, "store", keeps_transient_messages),
    "drops a dead letter": (DeadLetters, "send", drops_a_dead_letter),
    "drops what comes back too often": (rules.QueueRules, "returned", drops_what_comes_back_too_often),
}
PAGED = ("keeps transient messages",)  # which needs a queue that is longer than memory allows
# What only a clean stop shows: after a crash a letter may be in both queues.
KILLED: dict[str, Place] = {
    "keeps what became a dead letter": (DeadLetters, "send", keeps_what_became_a_dead_letter),
}
ALL = ELECTRIC | PLAIN | KILLED


@contextmanager
def mutated(name: str) -> Iterator[None]:
    owner, attribute, mutation = ALL[name]
    original = getattr(owner, attribute)
    setattr(owner, attribute, mutation(original))
    try:
        yield
    finally:
        setattr(owner, attribute, original)


def main() -> int:
    from embermq.cli.main import main as embermq

    with mutated(sys.argv.pop(1)):
        return embermq()


if __name__ == "__main__":
    sys.exit(main())
