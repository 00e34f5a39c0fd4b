"""Live numbers: sums of every virtual host once a second, and which lists have changed.

Computed once for all listeners, and not at all without one. A broker with more than `THINGS_MAX` queues,
exchanges and connections is not walked for this: its numbers are those of the history, every five seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from embermq.broker.broker import Broker
from embermq.broker.events import Event
from embermq.http.server.cooperative import StepScheduler
from embermq.http.stats.history import History
from embermq.http.stats.totals import Counting, Totals, totals_by_vhost

EVERY_S = 1.0
THINGS_MAX = 2000  # 4 ms of walking
LISTENERS_MAX = 100
LISTS = {
    "queue": "queues",
    "exchange": "exchanges",
    "binding": "bindings",
    "consumer": "consumers",
    "connection": "connections",
    "channel": "channels",
    "vhost": "vhosts",
    "user": "users",
    "permission": "permissions",
    "topic": "topic-permissions",
    "policy": "policies",
    "operator": "operator-policies",
}
NO_CHANGE = ("user.authentication.success", "user.authentication.failure")


class Snapshot:
    """What was found at one moment, beside what was found at the one before."""

    def __init__(self, time_ms: int, sums: dict[str, Totals], before: Snapshot | None) -> None:
        self.number: int = 0 if before is None else before.number + 1
        self.time_ms = time_ms
        self.elapsed_ms = 0 if before is None else max(time_ms - before.time_ms, 1)
        self.sums = sums
        self.sums_before = {} if before is None else before.sums
        self.changed: set[tuple[str, str]] = set()  # (list, virtual host), "" where it is in none
        self.encoded: dict[object, bytes] = {}  # by what the listener may see


class LiveNumbers:
    def __init__(
        self, broker: Broker, counting: Counting, history: History, scheduler: StepScheduler
    ) -> None:
        self.broker = broker
        self.counting = counting
        self.history = history
        self.scheduler = scheduler
        self.listener_count = 0
        self.snapshot: Snapshot | None = None
        self.changed: set[tuple[str, str]] = set()
        self.taken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return self.listener_count >= LISTENERS_MAX

    def enter(self) -> None:
        self.listener_count += 1
        if self.task is None:
            self.broker.events.listen(self.note)
            self.task = asyncio.get_running_loop().create_task(self.go_on_taking())

    def leave(self) -> None:
        self.listener_count -= 1
        if self.listener_count == 0 and self.task is not None:
            self.broker.events.unlisten(self.note)
            self.task.cancel()
            self.task = self.snapshot = None
            self.changed.clear()

    async def next(self) -> Snapshot:
        """The next one that tells how fast things go."""
        await self.taken.wait()
        assert self.snapshot is not None
        return self.snapshot

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task

    def note(self, event: Event) -> None:
        found = LISTS.get(event.key.partition(".")[0])
        if found is None or event.key in NO_CHANGE:
            return
        vhost = event.properties.get("vhost", event.properties["name"] if found == "vhosts" else "")
        self.changed.add((found, str(vhost)))

    async def go_on_taking(self) -> None:
        while True:
            snapshot = await self.take()
            if snapshot is not None:
                snapshot.changed, self.changed = self.changed, set()
                self.snapshot = snapshot
                if snapshot.elapsed_ms:
                    self.taken.set()
                    self.taken = asyncio.Event()
            await asyncio.sleep(EVERY_S)

    async def take(self) -> Snapshot | None:
        """None where there is nothing new: the history has not sampled again."""
        vhosts = list(self.broker.vhosts.values())
        things = sum(len(vhost.queues) + len(vhost.exchanges) for vhost in vhosts)
        if things + self.counting.connection_count() > THINGS_MAX:
            if self.snapshot is not None and self.snapshot.time_ms == self.history.time_ms:
                return None
            return Snapshot(self.history.time_ms, self.history.sums, self.snapshot)
        turn = self.broker.turn
        turn.refresh()
        now_ms = turn.now_ms
        return Snapshot(now_ms, await totals_by_vhost(vhosts, self.counting, self.scheduler), self.snapshot)


def total_of(sums: dict[str, Totals], vhosts: Sequence[str]) -> Totals:
    total = Totals()
    for name in vhosts:
        if name in sums:
            total.add(sums[name])
    return total
