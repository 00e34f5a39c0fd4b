"""Deletion of queues with a dead letter exchange: their messages become dead letters (001, queue.delete).

Clients no longer find the queue from the first moment on. Its messages are moved in pieces; its files go when
every message is safe in its new queue, including those that consumers still had and letters that no queue
takes yet. A durable queue has a definition of its own kind meanwhile, written together with its deletion:
after a stop or a crash the next start goes on. What was on its way then comes twice, `UNSAFE_COUNT_MAX`
messages at most; nothing is lost.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embermq.broker.definitions import packed

if TYPE_CHECKING:
    from embermq.broker.definitions import Body
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.queue")

REASON = "deleted"
KIND = "departing"  # of the definitions, by the id of the queue; the word is on disk
AGAIN_MS = 1000  # until consumers that still have messages, letters without a queue are looked at again
PIECE_COUNT = 32  # messages; each becomes a letter, which is as much work as a publish
UNSAFE_COUNT_MAX = 512  # of them, a multiple of that
NEEDED_ARGUMENTS = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-message-ttl",
)


def deletion_body(queue: Queue) -> Body:
    """What a start needs to go on with it."""
    effective = queue.effective
    arguments = {name: effective[name] for name in NEEDED_ARGUMENTS if name in effective}
    if queue.rules is not None and queue.rules.holds_letters:
        arguments["x-dead-letter-strategy"] = effective["x-dead-letter-strategy"]
    return {"queue": queue.name, **packed(arguments)}


class QueueDeletion:
    """Queues of one virtual host that are deleted and still have messages."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.incremental_work = vhost.turn.incremental_work
        self.queues: set[Queue] = set()  # whose files are there until all is safe elsewhere

    def leaves_letters(self, queue: Queue) -> bool:
        rules = queue.rules
        return rules is not None and rules.dead_letter_exchange is not None and not self.vhost.closing

    def is_noted(self, queue: Queue) -> bool:
        """Does it outlast the broker?"""
        return bool(queue.durable) and not queue.exclusive and self.vhost.storage is not None

    def note(self, queue: Queue) -> None:
        """It is about to lose its definition: this takes its place."""
        if self.leaves_letters(queue) and self.is_noted(queue):
            self.vhost.definitions.put(KIND, self.vhost.name, queue.id, deletion_body(queue))

    def add(self, queue: Queue) -> None:
        """A queue that is deleted: empty it, drop it."""
        if not self.leaves_letters(queue):
            self.drop(queue)
            return
        self.queues.add(queue)
        self.incremental_work.start(self.pieces(queue), about=self)

    def pieces(self, queue: Queue) -> Pieces:
        """Its messages become dead letters; when all are safe in their queues, it goes."""
        turn, noted = self.vhost.turn, self.is_noted(queue)
        disposed = 0
        while queue in self.queues:
            try:
                if not self.dispose_of_some(queue):
                    break
            except OSError as error:
                log.error("cannot read from %r, which is deleted: %s; it is tried again", queue, error)
                yield self.incremental_work.pause(AGAIN_MS)
                continue
            disposed += PIECE_COUNT
            if noted and disposed % UNSAFE_COUNT_MAX == 0:
                yield turn.after_safe  # a crash must not find more than these on their way
            else:
                yield
        if noted:
            while queue in self.queues and (queue.unacked_count or self.vhost.dead_letters.held.count(queue)):
                yield self.incremental_work.pause(AGAIN_MS)
            yield turn.after_safe
        if queue in self.queues:
            self.queues.remove(queue)
            self.drop_noted(queue)

    def dispose_of_some(self, queue: Queue) -> bool:
        """True while there may be more."""
        assert queue.rules is not None
        for _ in range(PIECE_COUNT):
            entry = queue.take_head()
            if entry is None:
                return False
            queue.rules.dispose([entry], REASON)
        return True

    def note_files(self, queue: Queue) -> None:
        """Its definition is about to go, and its files behind it: they must not be found unaccounted for."""
        if self.vhost.storage is not None and queue.has_files():
            self.vhost.storage.data.note_deletions([queue.id])

    def drop(self, queue: Queue) -> None:
        queue.drop()
        if queue.rules is not None:
            queue.rules.drop()

    def drop_noted(self, queue: Queue) -> None:
        noted = self.is_noted(queue)
        if noted:
            self.note_files(queue)
        self.drop(queue)
        if noted:
            self.vhost.definitions.note(KIND, self.vhost.name, queue.id, None)

    def finish(self) -> None:
        """Before a clean stop: the next start finds only those that are noted."""
        self.incremental_work.finish_about(self)

    def close(self) -> None:
        """The virtual host goes with everything in it."""
        for queue in self.queues:
            self.drop_noted(queue)
        self.queues.clear()

    # -- across restarts

    def restore(self, queue: Queue) -> list[str]:
        """Go on with one that the last run did not finish; the names of its logs."""
        queue.deleted = True
        queue.recover(None)
        self.queues.add(queue)
        self.incremental_work.begin(self.pieces(queue), about=self)
        return [level.log_id for level in queue.levels]
