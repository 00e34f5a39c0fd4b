"""Delayed messages of a virtual host: delayed by publishers, or requeued for a later try.

Published messages are routed when they are due, by the bindings there are then. What was given back goes to
the end of its queue. Both leave the schedule when they are safe where they went: a crash in between makes a
duplicate, never a loss.

Taking messages back (a queue purged or deleted, an exchange deleted, a request) costs one note: messages
to that destination with a number below this count no more, and fall out of the schedule when they are due.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from embermq.broker.delayed.record import Delayed, destination_of, usable_keys
from embermq.broker.delayed.schedule import Schedule
from embermq.broker.exchange.exchange import Exchange
from embermq.store.disk.layout import delayed_id

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.level import Entry
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.broker")

BATCH_COUNT = 1000  # handed on in one go, so that a crowd that is due does not stop everything else
LOOK_AHEAD_MS = 10_000
EVERYTHING = "*"  # a note about all destinations
KIND = "delayed"  # of these definitions


class Delays:
    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.turn = vhost.turn
        self.schedule = Schedule(vhost.turn, vhost.storage, delayed_id(vhost.name))
        self.counts: dict[str, int] = {}  # by destination
        self.taken_back: dict[str, int] = {}  # by destination: numbers below this
        self.asked_ms = 0  # the timers will call then; 0: they will not
        self.unsafe_count = 0  # handed on, but not known to be safe there

    # -- in

    def publish(self, message: Message, due_ms: int, more_keys: tuple[str, ...] = ()) -> None:
        """Route it when it is due."""
        destination = destination_of(message.exchange, message.routing_key)
        keys = usable_keys(more_keys) if more_keys else ()
        self.add(Delayed(due_ms, destination, message, keys, keeps=message.persistent))

    def give_back(self, queue: Queue, entry: Entry, due_ms: int, since_ms: int) -> None:
        """A consumer could not do with it: to its queue again when it is due."""
        keeps = bool(queue.keeps and entry.message.persistent)
        self.add(
            Delayed(due_ms, f"r:{queue.name}", entry.message, (queue.id,), entry.returns, since_ms, keeps)
        )

    def add(self, delayed: Delayed) -> None:
        self.schedule.add(delayed)
        self.counts[delayed.destination] = self.counts.get(delayed.destination, 0) + 1
        self.schedule_check(delayed.due_ms)

    # -- out

    def schedule_check(self, due_ms: int) -> None:
        """Be back at that time at the latest."""
        timers = self.turn.timers
        # Not further ahead than that: messages that come in the order last to first would ask one by one.
        due_ms = min(due_ms, self.turn.now_ms + LOOK_AHEAD_MS)
        if timers is not None and (self.asked_ms == 0 or due_ms < self.asked_ms):
            self.asked_ms = due_ms
            timers.ask(due_ms, self)

    def on_due(self, now_ms: int) -> None:
        if now_ms < self.asked_ms:
            return  # asked for once more, earlier
        self.asked_ms = 0
        for delayed in self.schedule.take_due(now_ms, BATCH_COUNT):
            if self.counts_still(delayed.number, delayed.destination):
                self.uncount(delayed.destination)
                try:
                    self.hand_on(delayed)
                except Exception:  # what is wrong with one must not hold up the others
                    log.exception("a fault of ours, handing on a delayed message to %s", delayed.destination)
                    continue  # it stays on disk: the next start tries again
            self.forget_when_safe(delayed)
        next_due_ms = self.schedule.next_due_ms()
        if next_due_ms:
            self.schedule_check(max(next_due_ms, now_ms + 1))
        elif self.taken_back:
            # Nothing is left that notes could be about, once the disk knows that, too.
            self.turn.after_safe(partial(self.forget_notes, self.schedule.next_number), with_acks=True)

    def hand_on(self, delayed: Delayed) -> None:
        message = delayed.message
        if delayed.since_ms:
            queue = self.vhost.queues.get(delayed.destination[2:])
            if queue is not None and delayed.keys == (queue.id,):
                queue.expects_expiry(0)  # has its rules from here on, whatever became of its arguments
                assert queue.rules is not None
                queue.rules.come_back(message, delayed.since_ms, delayed.returns)
            return
        exchange = self.vhost.exchanges.get(message.exchange)
        if exchange is not None:
            for queue in self.targets(exchange, message, delayed.keys):
                queue.append(message)

    def targets(self, exchange: Exchange, message: Message, more_keys: tuple[str, ...]) -> tuple[Queue, ...]:
        route = exchange.route(message.names, message.routing_key)
        if not route.varies and not more_keys:
            route.count += 1
            return route.queues
        queues = exchange.resolve_or_none(message.routing_key, message, more_keys)
        exchange.count_one(len(queues))
        if self.vhost.trace is not None:
            self.vhost.trace.published(message, queues, None)
        return queues

    def forget_when_safe(self, delayed: Delayed) -> None:
        if delayed.part is None or not delayed.keeps:
            self.schedule.done(delayed)
        else:
            self.unsafe_count += 1
            self.turn.after_safe(partial(self.forget, delayed))

    def forget(self, delayed: Delayed) -> None:
        self.schedule.done(delayed)
        self.unsafe_count -= 1
        if self.taken_back and not self.unsafe_count:
            self.clear_if_empty()

    # -- how many, and no more of them

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def count_to_exchange(self, name: str) -> int:
        return self.counts.get(f"e:{name}", 0)

    def count_to_queue(self, name: str) -> int:
        """Published for this queue by its name, or given back to it."""
        return self.counts.get(f"q:{name}", 0) + self.counts.get(f"r:{name}", 0)

    def uncount(self, destination: str) -> None:
        left = self.counts[destination] - 1
        if left:
            self.counts[destination] = left
        else:
            del self.counts[destination]

    def counts_still(self, number: int, destination: str) -> bool:
        if not self.taken_back:
            return True
        return number >= max(self.taken_back.get(destination, 0), self.taken_back.get(EVERYTHING, 0))

    def take_back_from_exchange(self, name: str) -> int:
        return self.take_back(f"e:{name}")

    def take_back_from_queue(self, name: str) -> int:
        return self.take_back(f"q:{name}") + self.take_back(f"r:{name}")

    def take_back(self, destination: str) -> int:
        """Deliver nothing of what waits for a destination now; how many messages that are."""
        count = self.counts.pop(destination, 0)
        if count:
            below = self.schedule.next_number
            self.taken_back[destination] = below
            self.vhost.definitions.put(KIND, self.vhost.name, destination, {"below": below})
            self.clear_if_empty()
        return count

    def clear_if_empty(self) -> None:
        """What is left in the schedule was taken back; but what is on its way has its only record there."""
        if not self.counts and not self.unsafe_count:
            self.schedule.clear()

    def forget_notes(self, below: int) -> None:
        for destination in [name for name, number in self.taken_back.items() if number <= below]:
            del self.taken_back[destination]
            self.vhost.definitions.delete(KIND, self.vhost.name, destination)

    # -- across restarts

    def recover(self, taken_back: dict[str, int]) -> None:
        """Take over what is on disk; `taken_back` is what was stored of these notes."""
        self.taken_back = taken_back
        needed: set[str] = set()

        def found(number: int, destination: str) -> None:
            if self.counts_still(number, destination):
                self.counts[destination] = self.counts.get(destination, 0) + 1
            else:
                needed.update((destination, EVERYTHING))

        self.schedule.next_number = max(self.schedule.next_number, *taken_back.values(), 0)
        self.schedule.recover(found)
        for destination in set(taken_back) - needed:
            del self.taken_back[destination]
            self.vhost.definitions.delete(KIND, self.vhost.name, destination)
        if self.schedule.next_due_ms():
            self.schedule_check(self.schedule.next_due_ms())

    def drop(self) -> None:
        """The virtual host is deleted."""
        for destination in self.taken_back:
            self.vhost.definitions.delete(KIND, self.vhost.name, destination)
        if self.taken_back or self.schedule.log_ids():
            # For one of the same name: the files may outlive a crash that comes right now.
            below = self.schedule.next_number
            self.vhost.definitions.put(KIND, self.vhost.name, EVERYTHING, {"below": below})
        if self.vhost.storage is not None:
            self.vhost.storage.data.note_deletions(self.schedule.log_ids())
        self.counts, self.taken_back = {}, {}
        self.schedule.clear()
