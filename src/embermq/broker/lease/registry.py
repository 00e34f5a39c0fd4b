"""The leases of a virtual host: made, found, settled, released, taken again, brought back after a restart.

    (none) -- taking --> open -- settle --> settled        the queue remembers the names of the last thousand
                          |  ^
                  release |  | taking_again: exactly the same messages, if all of them are in the queue
                 or time  v  |
                         released                          likewise; for other requests the name is free

"Being made" is a state of the memory only: a broker that dies then has all the messages in the queue again.
So is "being released": on disk a lease is open until its last message is read and back in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from embermq.broker.incremental_work import Pieces
from embermq.broker.lease.lease import KIND, OPEN, RELEASED, SETTLED, Lease, Run
from embermq.broker.queue.browse import Place, Seen, ready_from
from embermq.broker.queue.extract import withdraw
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.queue.requeue import PIECE_COUNT
from embermq.broker.queue.runs import body_bytes_of
from embermq.errors import NotFound, PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.broker")

SETTLED_MAX = 1000  # names of settled leases that a queue remembers
RELEASED_MAX = 1000  # and of released ones
LEASES_MAX = 1000  # open ones of a queue
OLD_MS = 24 * 3600 * 1000  # then it is logged
LOOKED_AT_ONCE = 512  # messages, while those of a lease are looked for
AGAIN_MS = 1000  # when messages that shall be given back cannot be read: too many open files, perhaps


class Leases:
    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.of: dict[Queue, dict[str, Lease]] = {}  # open and settled ones, in order of creation
        self.released: dict[Queue, dict[str, Lease]] = {}  # the oldest first
        self.watching = False  # for leases that have been open for long

    def find(self, queue: Queue, name: str) -> Lease:
        """The open lease."""
        lease = self.of.get(queue, {}).get(name)
        if lease is None or lease.state != OPEN or lease.being_made:
            raise NotFound(f"no lease '{name}' on {describe(queue)}")
        return lease

    def has(self, lease: Lease) -> bool:
        return self.of.get(lease.queue, {}).get(lease.name) is lease

    def open_ones(self) -> list[Lease]:
        """Of all queues."""
        every = (lease for leases in self.of.values() for lease in leases.values())
        return [lease for lease in every if lease.state == OPEN and not lease.being_made]

    def begin(self, queue: Queue, name: str, timeout_ms: int) -> Lease:
        """An empty lease; the caller works through `taking` or `taking_again`."""
        leases = self.of.setdefault(queue, {})
        assert name not in leases
        if sum(lease.state == OPEN for lease in leases.values()) >= LEASES_MAX:
            raise PreconditionFailed(f"{describe(queue)} has {LEASES_MAX} leases, which is enough")
        now_ms = self.vhost.turn.now_ms
        lease = leases[name] = Lease(queue, name, now_ms, now_ms + timeout_ms if timeout_ms else 0)
        return lease

    def taking(self, lease: Lease, count_max: int, bytes_max: int) -> Pieces:
        """Take messages from the head of the queue, then keep the lease; if that fails there is none."""
        with self.making(lease):
            while lease.take(min(count_max - lease.count, PIECE_COUNT), bytes_max):
                if lease.count >= count_max:
                    break
                yield
                if lease.queue.deleted:
                    return
            self.keep(lease)

    def taking_again(self, lease: Lease) -> Pieces:
        """Take what a released lease of this name had: all of it, or nothing, and then there is no lease."""
        queue, released = lease.queue, self.released[lease.queue][lease.name]
        with self.making(lease):
            there = 0
            for found in still_there(queue, released):
                there += len(found)
                yield
            if there == released.count:
                while take_heads(lease, released):
                    yield
                for found in still_there(queue, released, lease.count):
                    for entry in withdraw(queue, found):
                        queue.correct(0, 0, 1, body_bytes_of([entry]))
                        lease.add(entry)
                    yield
            if queue.deleted:
                return
            if there == lease.count == released.count:
                self.keep(lease)
            else:
                yield from lease.give_back()
                self.drop(lease)

    @contextmanager
    def making(self, lease: Lease) -> Iterator[None]:
        try:
            yield
        except BaseException:  # also when the pieces are not continued
            if not lease.queue.deleted:
                self.end(lease, "given up")
            raise

    def keep(self, lease: Lease) -> None:
        """All is taken: from now on the lease lasts."""
        if lease.count == 0:
            self.drop(lease)
            return
        lease.being_made = False
        self.forget_released(lease.queue, lease.name)
        self.write(lease)
        self.look_later(lease)
        if not self.watching:
            self.watch_ages()

    def renew(self, lease: Lease, timeout_ms: int) -> None:
        lease.expires_ms = self.vhost.turn.now_ms + timeout_ms if timeout_ms else 0
        self.write(lease)
        self.look_later(lease)

    def settle(self, lease: Lease) -> None:
        lease.state = SETTLED
        self.write(lease)
        lease.end_readings(f"lease '{lease.name}' on {describe(lease.queue)} was settled")
        self.vhost.definitions.when_safe(lambda: self.ack(lease))

    def ack(self, lease: Lease) -> None:
        """That the lease is settled is on disk; now its messages may go."""

        def done() -> None:
            lease.runs = []
            if not lease.queue.deleted and self.has(lease):
                self.write(lease)
                self.forget_old(lease.queue)

        def acked() -> None:
            if self.vhost.storage is None:
                done()
            else:
                self.vhost.turn.after_safe(done, with_acks=True)

        if not lease.queue.deleted:
            self.vhost.turn.incremental_work.start(lease.ack_pieces(), acked, about=lease)

    def release(self, lease: Lease, why: str = "released", done: Callable[[], None] | None = None) -> None:
        """At once, or in pieces if it is large; then call `done`."""
        self.vhost.turn.incremental_work.start(
            self.releasing(lease, why), done or (lambda: None), about=lease
        )

    def releasing(self, lease: Lease, why: str = "released") -> Pieces:
        """If the lease is still there when this is done (see `has`), its messages could not be read."""
        lease.being_released = True
        return self.release_pieces(lease, why)

    def release_pieces(self, lease: Lease, why: str) -> Pieces:
        try:
            yield from lease.give_back()
        except OSError as error:
            log.error("lease '%s' on %s cannot be %s: %s", lease.name, describe(lease.queue), why, error)
            return
        finally:
            lease.being_released = False
        if lease.queue.deleted:
            return
        self.drop(lease)
        if not lease.being_made:
            self.remember(lease)
            lease.end_readings(f"lease '{lease.name}' on {describe(lease.queue)} was {why}")

    def end(self, lease: Lease, why: str) -> None:
        """No client waits for that: try again until it is released."""

        def done() -> None:
            timers = self.vhost.turn.timers
            if self.has(lease) and timers is not None:
                timers.ask(self.vhost.turn.now_ms + AGAIN_MS, Deadline(self, lease))

        self.release(lease, why, done)

    def remember(self, lease: Lease) -> None:
        """What a released lease had, if that is on disk: nothing else can be told apart after a restart."""
        if any(run.entries is not None for run in lease.runs):
            return
        lease.state = RELEASED
        remembered = self.released.setdefault(lease.queue, {})
        remembered[lease.name] = lease
        self.write(lease)
        for name in list(remembered)[: max(len(remembered) - RELEASED_MAX, 0)]:
            self.forget_released(lease.queue, name)

    def queue_deleted(self, queue: Queue) -> None:
        for lease in list(self.of.get(queue, {}).values()):
            self.drop(lease)
            lease.end_readings(f"no {describe(queue)}")
        for name in list(self.released.get(queue, {})):
            self.forget_released(queue, name)

    # -- time

    def look_later(self, lease: Lease) -> None:
        timers = self.vhost.turn.timers
        if lease.expires_ms and timers is not None:
            timers.ask(lease.expires_ms, Deadline(self, lease))

    def watch_ages(self) -> None:
        """Check when the oldest lease has become old; one for all of them, since most end soon."""
        young = [lease.created_ms for lease in self.open_ones() if not lease.is_old]
        timers = self.vhost.turn.timers
        if young and not self.watching and timers is not None:
            self.watching = True
            timers.ask(min(young) + OLD_MS, Ages(self))

    def tell_old(self, now_ms: int) -> None:
        self.watching = False
        for lease in self.open_ones():
            if not lease.is_old and now_ms >= lease.created_ms + OLD_MS:
                lease.is_old = True
                log.warning(
                    "lease '%s' on %s has kept %d messages for a day; its client may be gone "
                    "(embermq lease list, release)",
                    lease.name,
                    describe(lease.queue),
                    lease.count,
                )
        self.watch_ages()

    def on_due(self, lease: Lease, now_ms: int) -> None:
        if not self.has(lease) or lease.state != OPEN or lease.being_released:
            return
        if lease.being_made:
            self.end(lease, "given up")  # once more
        elif lease.expires_ms and now_ms >= lease.expires_ms:
            log.warning("lease '%s' on %s is over: released", lease.name, describe(lease.queue))
            self.end(lease, "over")

    # -- on disk

    def write(self, lease: Lease) -> None:
        if lease.queue.durable:
            self.vhost.definitions.put(*lease.key, lease.body())

    def drop(self, lease: Lease) -> None:
        leases = self.of.get(lease.queue, {})
        leases.pop(lease.name, None)
        if not leases:
            self.of.pop(lease.queue, None)
        if lease.queue.durable and not lease.being_made:
            self.vhost.definitions.delete(*lease.key)

    def forget(self, queue: Queue, name: str) -> None:
        """No client will ask what became of this lease."""
        lease = self.of.get(queue, {}).get(name)
        if lease is not None and lease.state == SETTLED and not lease.runs:
            self.drop(lease)
        self.forget_released(queue, name)

    def forget_released(self, queue: Queue, name: str) -> None:
        remembered = self.released.get(queue, {})
        lease = remembered.pop(name, None)
        if not remembered:
            self.released.pop(queue, None)
        if lease is not None and queue.durable:
            self.vhost.definitions.delete(*lease.key)

    def forget_old(self, queue: Queue) -> None:
        settled = [lease for lease in self.of.get(queue, {}).values() if lease.state == SETTLED]
        for lease in settled[: max(len(settled) - SETTLED_MAX, 0)]:
            if not lease.runs:  # of the others the acks are under way
                self.drop(lease)

    # -- after a restart

    def restore(self, queue: Queue, name: str, body: dict[str, Any]) -> None:
        """Before the queue has its messages: those of leases are not ready."""
        lease = Lease(queue, name, body["created_ms"], body["expires_ms"])
        lease.being_made = False
        lease.state, lease.count, lease.bytes = body["state"], body["count"], body["bytes"]
        lease.stored_bytes = body.get("stored_bytes", lease.bytes)
        if queue.rules is not None:
            queue.rules.before_recovery()  # makes the levels of a queue with priorities
        levels = {level.log_id: level for level in queue.levels}
        for log_id, first, count, base in body["runs"]:
            level = levels.get(log_id)
            if level is not None:
                lease.runs.append(Run(level, first, count, base, None))
                if lease.state != RELEASED:
                    level.hold(range(first, first + count))
        leases = self.released if lease.state == RELEASED else self.of
        leases.setdefault(queue, {})[name] = lease

    def recovered(self) -> None:
        """The queues have their messages: count those that are out, and end what was settled."""
        for leases in (*self.of.values(), *self.released.values()):
            for lease in leases.values():
                lease.cut_off()
        for queue, leases in self.of.items():
            held = sum(len(level.held) for level in queue.levels if level.held is not None)
            queue.correct(0, 0, held, sum(lease.stored_bytes for lease in leases.values() if lease.runs))
            for lease in list(leases.values()):
                if lease.state == SETTLED and lease.runs:
                    self.ack(lease)
                elif lease.state == OPEN:
                    self.look_later(lease)
        self.watch_ages()


def take_heads(lease: Lease, released: Lease) -> bool:
    """Take messages of a released lease that are the next to leave the queue; True when there may be more."""
    queue = lease.queue
    for _ in range(PIECE_COUNT):
        if lease.count == released.count or queue.deleted:
            return False
        entry = queue.get()
        if entry is None:
            return False
        run = released.run_at(lease.count)
        if entry.level is not run.level or entry.sequence - run.first != lease.count - run.base:
            queue.correct(0, 0, -1, -body_bytes_of([entry]))
            queue.put_back([entry])
            return False
        lease.add(entry)
    return True


def still_there(queue: Queue, released: Lease, number: int = 0) -> Iterator[list[Seen]]:
    """The messages of a released lease from a number on, in pieces, up to one that has left the queue."""
    place: Place | None = None
    while number < released.count and released.runs and not queue.deleted:
        found: list[Seen] = []
        seen: Seen | None = None
        for seen in islice(ready_from(queue, place), LOOKED_AT_ONCE):
            run = released.run_at(number)
            sequence = run.first + number - run.base
            if number == released.count or (seen.level is run.level and seen.sequence > sequence):
                break
            if seen.level is run.level and seen.sequence == sequence < run.stop:
                found.append(seen)
                number += 1
        else:
            if seen is not None:
                place = seen.next_place
                yield found
                continue
        yield found
        return


class Deadline:
    def __init__(self, leases: Leases, lease: Lease) -> None:
        self.leases = leases
        self.lease = lease

    def on_due(self, now_ms: int) -> None:
        self.leases.on_due(self.lease, now_ms)


class Ages:
    def __init__(self, leases: Leases) -> None:
        self.leases = leases

    def on_due(self, now_ms: int) -> None:
        self.leases.tell_old(now_ms)


def restore_all(vhosts: dict[str, VirtualHost], definitions: Any) -> None:
    """Leases of queues that are gone are passed over; their definitions go."""
    queues = {queue.id: queue for vhost in vhosts.values() for queue in vhost.queues.values()}
    for definition in definitions.all(KIND):
        queue = queues.get(definition.vhost)
        if queue is None:
            definitions.delete(KIND, definition.vhost, definition.name)
        else:
            queue.vhost.leases.restore(queue, definition.name, definition.body)
