"""The leases of a virtual host: made, found, settled, released, and brought back after a restart."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from embermq.broker.lease import KIND, OPEN, SETTLED, Lease, Run
from embermq.broker.queue import Queue, describe
from embermq.errors import NotFound, PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.broker")

SETTLED_MAX = 1000  # names of settled leases that a queue remembers
LEASES_MAX = 1000  # open ones of a queue


class Leases:
    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.of: dict[Queue, dict[str, Lease]] = {}  # open and settled ones, in order of creation

    def find(self, queue: Queue, name: str) -> Lease:
        """The open lease."""
        lease = self.of.get(queue, {}).get(name)
        if lease is None or lease.state != OPEN or lease.being_made:
            raise NotFound(f"no lease '{name}' on {describe(queue)}")
        return lease

    def begin(self, queue: Queue, name: str, timeout_ms: int) -> Lease:
        """An empty lease; the caller takes messages into it and then calls `keep`."""
        leases = self.of.setdefault(queue, {})
        assert name not in leases
        if sum(lease.state == OPEN for lease in leases.values()) >= LEASES_MAX:
            raise PreconditionFailed(f"{describe(queue)} has {LEASES_MAX} leases, which is enough")
        now_ms = self.vhost.turn.now_ms
        lease = leases[name] = Lease(queue, name, now_ms, now_ms + timeout_ms if timeout_ms else 0)
        return lease

    def keep(self, lease: Lease) -> None:
        """All is taken: from now on the lease lasts."""
        lease.being_made = False
        if lease.count == 0:
            self.forget(lease)
            return
        self.write(lease)
        self.look_later(lease)

    def renew(self, lease: Lease, timeout_ms: int) -> None:
        lease.expires_ms = self.vhost.turn.now_ms + timeout_ms if timeout_ms else 0
        self.write(lease)
        self.look_later(lease)

    def settle(self, lease: Lease) -> None:
        lease.state = SETTLED
        self.write(lease)
        lease.end_readings(f"lease '{lease.name}' on {describe(lease.queue)} was settled")
        self.vhost.catalog.when_safe(lambda: self.ack(lease))

    def ack(self, lease: Lease) -> None:
        """That the lease is settled is on disk; now its messages may go."""
        if lease.queue.deleted:
            return
        lease.acked()
        storage = self.vhost.storage

        def done() -> None:
            lease.runs = []
            if not lease.queue.deleted:
                self.write(lease)
                self.forget_old(lease.queue)

        if storage is None:
            done()
        else:
            self.vhost.turn.after_write(lambda: storage.when_safe(done, with_acks=True))

    def release(self, lease: Lease, why: str = "released") -> None:
        lease.give_back()  # which may have to be tried again: too many open files, perhaps
        self.forget(lease)
        lease.end_readings(f"lease '{lease.name}' on {describe(lease.queue)} was {why}")

    def queue_deleted(self, queue: Queue) -> None:
        for lease in list(self.of.get(queue, {}).values()):
            self.forget(lease)
            lease.end_readings(f"no {describe(queue)}")

    # -- time

    def look_later(self, lease: Lease) -> None:
        timetable = self.vhost.turn.timetable
        if lease.expires_ms and timetable is not None:
            timetable.ask(lease.expires_ms, Deadline(self, lease))

    def on_due(self, lease: Lease, now_ms: int) -> None:
        if self.of.get(lease.queue, {}).get(lease.name) is not lease or lease.state != OPEN:
            return
        if lease.expires_ms and now_ms >= lease.expires_ms:
            log.warning("lease '%s' on %s is over: released", lease.name, describe(lease.queue))
            self.release(lease, "over")

    # -- on disk

    def write(self, lease: Lease) -> None:
        if lease.queue.durable:
            self.vhost.catalog.put(*lease.key, lease.body())

    def forget(self, lease: Lease) -> None:
        leases = self.of.get(lease.queue, {})
        leases.pop(lease.name, None)
        if not leases:
            self.of.pop(lease.queue, None)
        if lease.queue.durable:
            self.vhost.catalog.delete(*lease.key)

    def forget_old(self, queue: Queue) -> None:
        settled = [lease for lease in self.of.get(queue, {}).values() if lease.state == SETTLED]
        for lease in settled[: max(len(settled) - SETTLED_MAX, 0)]:
            self.forget(lease)

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
                level.held = (level.held or set()) | set(range(first, first + count))
        self.of.setdefault(queue, {})[name] = lease

    def recovered(self) -> None:
        """The queues have their messages: count those that are out, and end what was settled."""
        for queue, leases in self.of.items():
            held = sum(len(level.held) for level in queue.levels if level.held is not None)
            queue.correct(0, 0, held, sum(lease.stored_bytes for lease in leases.values() if lease.runs))
            for lease in list(leases.values()):
                if lease.state == SETTLED and lease.runs:
                    self.ack(lease)
                else:
                    self.look_later(lease)


class Deadline:
    def __init__(self, leases: Leases, lease: Lease) -> None:
        self.leases = leases
        self.lease = lease

    def on_due(self, now_ms: int) -> None:
        self.leases.on_due(self.lease, now_ms)


def restore_all(vhosts: dict[str, VirtualHost], definitions: Any) -> None:
    """Leases of queues that are gone are passed over; their definitions go."""
    queues = {queue.id: queue for vhost in vhosts.values() for queue in vhost.queues.values()}
    for definition in definitions.all(KIND):
        queue = queues.get(definition.vhost)
        if queue is None:
            definitions.delete(KIND, definition.vhost, definition.name)
        else:
            queue.vhost.leases.restore(queue, definition.name, definition.body)
