"""The messages of a deleted queue: dead letters, where it has an exchange for such (001, queue.delete).

The queue is gone for everybody at once. A long one is emptied in steps between which others have their turn;
its files go when every message is safe where it went, those included that consumers still had and letters
that nobody takes yet. A durable queue has a note in the catalog meanwhile, written together with its
deletion: after a stop or a crash the next start goes on. What was just on its way then comes twice, one step
of it at most; nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.definitions import packed

if TYPE_CHECKING:
    from embermq.broker.definitions import Body
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

REASON = "deleted"
KIND = "departing"  # of the notes in the catalog, by the id of the queue
NEXT_MS = 1  # later, and not at once: the timers go on until nothing is due
LOOK_AGAIN_MS = 1000  # for consumers that still have messages, letters that nobody takes
STEP_COUNT_MAX = 500  # messages in one go
NEEDED_ARGUMENTS = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-message-ttl",
)


def departing_body(queue: Queue) -> Body:
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
        self.full: list[Queue] = []  # with messages that are to become letters
        self.resting: set[Queue] = set()  # those among them whose last step is not safe yet
        self.emptied: list[Queue] = []  # but not known to be safe elsewhere
        self.asked_ms = 0  # the timers will call then; 0: they will not

    def leaves_letters(self, queue: Queue) -> bool:
        rules = queue.rules
        return rules is not None and rules.dead_letter_exchange is not None and not self.vhost.closing

    def is_noted(self, queue: Queue) -> bool:
        """Does it outlast the broker?"""
        return bool(queue.durable) and not queue.exclusive and self.vhost.storage is not None

    def note(self, queue: Queue) -> None:
        """It is about to lose its definition: this takes its place."""
        if self.leaves_letters(queue) and self.is_noted(queue):
            self.vhost.catalog.put(KIND, self.vhost.name, queue.id, departing_body(queue))

    def add(self, queue: Queue) -> None:
        """A queue that is deleted: empty it, drop it."""
        if not self.leaves_letters(queue):
            self.drop(queue)
            return
        self.full.append(queue)
        self.step(queue)

    # -- in steps

    def step(self, queue: Queue) -> None:
        assert queue.rules is not None
        for _ in range(STEP_COUNT_MAX):
            entry = queue.take_head()
            if entry is None:
                self.full.remove(queue)
                self.emptied.append(queue)
                self.look(queue)
                return
            queue.rules.dispose([entry], REASON)
        storage = self.vhost.storage
        if self.vhost.turn.timers is None:
            self.step(queue)
        elif storage is None or not self.is_noted(queue):
            self.look_at(NEXT_MS)
        else:
            # Not before these are safe: a crash must not find more than one step on its way.
            self.resting.add(queue)
            self.vhost.turn.after_write(lambda: storage.when_safe(lambda: self.rested(queue)))

    def rested(self, queue: Queue) -> None:
        self.resting.discard(queue)
        self.look_at(NEXT_MS)

    def look(self, queue: Queue) -> None:
        """Is everything gone from a queue that is empty? Then it goes, once that is safe."""
        storage = self.vhost.storage
        if storage is None or not self.is_noted(queue):
            self.end(queue)
        elif queue.unacked_count or self.vhost.dead_letters.held.count(queue):
            self.look_at(LOOK_AGAIN_MS)
        else:
            self.vhost.turn.after_write(lambda: storage.when_safe(lambda: self.end(queue)))

    def look_at(self, later_ms: int) -> None:
        timers, due_ms = self.vhost.turn.timers, self.vhost.turn.now_ms + later_ms
        if timers is not None and (self.asked_ms == 0 or due_ms < self.asked_ms):
            self.asked_ms = due_ms
            timers.ask(due_ms, self)

    def on_due(self, now_ms: int) -> None:
        if now_ms < self.asked_ms:
            return  # asked for once more, earlier
        self.asked_ms = 0
        for queue in [queue for queue in self.full if queue not in self.resting]:
            self.step(queue)
        for queue in list(self.emptied):
            self.look(queue)

    # -- the end

    def end(self, queue: Queue) -> None:
        if queue in self.emptied:
            self.emptied.remove(queue)
            self.drop_noted(queue)

    def drop(self, queue: Queue) -> None:
        queue.drop()
        if queue.rules is not None:
            queue.rules.drop()

    def drop_noted(self, queue: Queue) -> None:
        noted = self.is_noted(queue)
        if noted:
            assert self.vhost.storage is not None
            self.vhost.storage.note_deletion(queue)
        self.drop(queue)
        if noted:
            self.vhost.catalog.note(KIND, self.vhost.name, queue.id, None)

    def finish(self) -> None:
        """Before a clean stop: those that the next start will not find."""
        while forgotten := [queue for queue in self.full if not self.is_noted(queue)]:
            for queue in forgotten:
                self.step(queue)

    def close(self) -> None:
        """The virtual host goes with everything in it."""
        for queue in [*self.full, *self.emptied]:
            self.drop_noted(queue)
        self.full, self.emptied = [], []

    # -- across restarts

    def restore(self, queue: Queue) -> list[str]:
        """Go on with one that the last run did not finish; the names of its logs."""
        queue.deleted = True
        queue.recover(None)
        self.full.append(queue)
        if self.vhost.turn.timers is None:
            self.step(queue)
        else:
            self.look_at(NEXT_MS)
        return [level.log_id for level in queue.levels]
