"""The turn: work that one pass of the event loop gathers, done once at its end.

Publishing, acknowledging and consuming only mark: a queue that may have something to deliver, a connection
that has something to send. `run` is scheduled at the first mark of a turn; it drains the queues, writes the
logs that have something new, then lets every marked sink send all it has in one write.

A turn with nothing but one publisher's messages for one log is a case of its own: they are written and synced
in one call, and the confirm leaves with the turn (docs/decisions/0012-written-and-synced-in-one.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from embermq.broker.fairness import Fairness
from embermq.broker.incremental_work import IncrementalWork
from embermq.broker.interfaces import Logged, LogWriter, Sink
from embermq.clock import monotonic_s, wall_ms
from embermq.store.histogram import Histogram

if TYPE_CHECKING:
    from embermq.broker.timers import Timers

log = logging.getLogger("embermq.broker")

TIMED_MASK = 15  # one turn in sixteen is timed
RETRY_MS = 1000  # until a queue that could not be read is tried again
LIGHT_SINKS_MAX = 16  # with more of them to send to, confirms go first


class TurnQueue(Protocol):
    """What a turn drains: a queue, or work that is done in pieces."""

    dirty: bool

    def drain(self) -> bool:
        """Deliver what can be delivered; True when some is left for the next turn."""
        ...


class Unreadable:
    """Queues that could not be read, waiting for their next try: a try may cost the disk much."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.queues: set[TurnQueue] = set()

    def add(self, queue: TurnQueue, error: OSError) -> None:
        log.error("cannot read from %r: %s; its consumers wait until this is mended", queue, error)
        if self.turn.timers is not None:
            if not self.queues:
                self.turn.timers.ask(self.turn.now_ms + RETRY_MS, self)
            self.queues.add(queue)

    def on_due(self, now_ms: int) -> None:
        queues, self.queues = self.queues, set()
        for queue in queues:
            if not queue.dirty:
                queue.dirty = True
                self.turn.add_queue(queue)


def do_all(actions: Sequence[Callable[[], object]]) -> None:
    for action in actions:
        try:
            action()
        except Exception:  # the others go on
            log.exception("a fault of ours, after writing: %r", action)


class Turn:
    __slots__ = (
        "actions",
        "active_count",
        "alarmed",
        "clock",
        "confirms",
        "copies",
        "count",
        "fairness",
        "incremental_work",
        "last",
        "left",
        "logs",
        "now_ms",
        "queues",
        "schedule",
        "scheduled",
        "sinks",
        "storage",
        "synced",
        "tight",
        "timers",
        "times",
        "unreadable",
        "unsafe",
        "unsafe_acks",
        "uptime",
        "working",
    )

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] | None = None,
        uptime: Callable[[], float] | None = None,
    ) -> None:
        self.schedule = schedule
        self.scheduled = False
        self.queues: list[TurnQueue] = []
        self.left = 0  # the first so many had more than their share: others come before them this time
        self.sinks: list[Sink] = []
        self.logs: list[Logged] = []
        self.actions: list[Callable[[], None]] = []
        self.unsafe: list[Callable[[], object]] = []
        self.unsafe_acks = False
        self.last: list[Callable[[bool], None]] = []
        self.working = False
        self.storage: LogWriter | None = None
        self.timers: Timers | None = None
        self.incremental_work = IncrementalWork(self)
        self.unreadable = Unreadable(self)
        self.fairness = Fairness()
        self.clock = clock  # None: the machine's
        self.uptime = uptime or clock
        self.now_ms = 0
        self.refresh()
        self.alarmed = False  # memory or disk are short: publishers wait
        self.tight = False  # memory may be short soon: queues keep little there
        self.copies = 0  # of messages for several queues, in this turn
        self.confirms = 0  # channels that wait to confirm what was published in this turn
        self.synced = False  # all that this turn has written is on disk already
        self.count = 0  # turns so far
        self.active_count = 0  # those that delivered or sent something
        self.times = Histogram()  # how long some of them took

    def refresh(self) -> None:
        """Read the clock; once per turn and read, not per message."""
        self.now_ms = wall_ms() if self.clock is None else int(self.clock() * 1000)

    def uptime_ms(self) -> int:
        """Since some moment; setting the clock does not change it."""
        return int((monotonic_s() if self.uptime is None else self.uptime()) * 1000)

    def wake(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.schedule(self.run)

    def add_queue(self, queue: TurnQueue) -> None:
        """Mark a queue; it looks after its own `dirty` flag so that marking twice costs nothing."""
        self.queues.append(queue)
        self.wake()

    def add_sink(self, sink: Sink) -> None:
        self.sinks.append(sink)
        self.wake()

    def add_log(self, level: Logged) -> None:
        self.logs.append(level)
        self.wake()

    def after_write(self, action: Callable[[], None]) -> None:
        """Do it in this turn, once the logs are written."""
        self.actions.append(action)
        self.wake()

    def after_safe(self, action: Callable[[], object], with_acks: bool = False) -> None:
        """Do it when all that was appended up to now, to any log, would survive a power cut (`with_acks`: all
        that was acked as well): the old record of a message is forgotten when the new one is safe. Without a
        disk: in this turn, when it would write."""
        self.unsafe.append(action)
        self.unsafe_acks = self.unsafe_acks or with_acks
        self.wake()

    def await_safe(self) -> None:
        """The logs are written: one sync for all actions of this turn."""
        actions, with_acks = self.unsafe, self.unsafe_acks
        self.unsafe, self.unsafe_acks = [], False
        if self.storage is None:
            do_all(actions)
        else:
            self.storage.when_safe(partial(do_all, actions), with_acks)

    def at_end(self, action: Callable[[bool], None]) -> None:
        """Do it when this turn has done all else (or the next one, if none is at work), and tell it whether
        that is really all, with nothing left for another turn. What it has others send goes out at once."""
        self.last.append(action)
        if not self.working:
            self.wake()

    def finish(self) -> None:
        """The last turns: until every log is written."""
        self.incremental_work.finish()
        self.run()
        while self.logs:
            self.run()

    def run(self) -> None:
        self.count += 1
        if self.count & TIMED_MASK:
            self.work()
        else:
            began_s = monotonic_s()
            self.work()
            self.times.observe(monotonic_s() - began_s)

    def work(self) -> None:
        self.scheduled = False
        self.working = True
        if self.queues or self.sinks or self.actions or self.unsafe or self.last:
            self.active_count += 1
        self.copies = 0
        self.synced = False
        self.fairness.begin_turn(self.now_ms)
        drained = False
        if self.queues:
            self.drain()
            drained = True
        if self.logs:
            self.write(not drained)
        self.confirms = 0
        if self.unsafe:
            self.await_safe()
        if self.actions:
            actions = self.actions
            self.actions = []
            do_all(actions)
        if self.sinks:
            self.send()
        if self.last:
            self.end()
        self.working = False

    def has_work(self) -> bool:
        return bool(self.queues or self.sinks or self.logs or self.actions or self.unsafe or self.last)

    def drain(self) -> None:
        queues = self.queues
        self.queues = []
        if self.left:
            queues = queues[self.left :] + queues[: self.left]
        left: list[TurnQueue] = []
        unreadable = self.unreadable.queues
        for queue in queues:
            queue.dirty = False
            if unreadable and queue in unreadable:
                continue
            try:
                if queue.drain() and not queue.dirty:
                    queue.dirty = True
                    left.append(queue)
            except OSError as error:
                self.unreadable.add(queue, error)
            except Exception:  # what is wrong with one must not silence the others
                log.exception("a fault of ours, draining %r", queue)
        self.left = len(left)
        if left:
            self.queues = left + self.queues
            self.wake()

    def write(self, nothing_drained: bool) -> None:
        """Write the logs; so that it is safe at once if one publisher waits for that and for nothing else."""
        storage = self.storage
        assert storage is not None
        logs, self.logs = self.logs, []
        if nothing_drained and self.confirms == 1 and len(logs) == 1 and len(self.sinks) == 1:
            if not (self.scheduled or self.actions or self.unsafe or self.last):
                self.synced = storage.write_synced(logs[0], self.active_count)
                if self.synced:
                    return
        left = storage.write(logs, self.count)
        if left:
            self.logs = left + self.logs
            self.wake()

    def send(self) -> None:
        sinks, self.sinks = self.sinks, []
        if 1 < len(sinks) <= LIGHT_SINKS_MAX and sinks[-1].has_little():
            # A message on its way goes before the confirm of its publisher, which was marked when it came:
            # what comes second waits for a system call that wakes a process. Under load publishers shall go
            # on.
            sinks.reverse()
        for sink in sinks:
            sink.dirty = False
            try:
                sink.end_turn()
            except Exception:
                log.exception("a fault of ours, sending to %r", sink)

    def end(self) -> None:
        actions = self.last
        self.last = []
        scheduled = self.scheduled  # perhaps only for what this turn has done meanwhile
        quiet = not self.has_work()
        self.scheduled = True  # what the actions mark needs no further turn
        for action in actions:
            try:
                action(quiet)
            except Exception:
                log.exception("a fault of ours, at the end of a turn: %r", action)
        if quiet:
            self.send()
            self.scheduled = scheduled
            if self.has_work():
                self.wake()
