"""Tasks on a queue's messages: move, copy, delete, or return dead letters to the queue where they died.

A task is done in slices by `incremental_work`; the HTTP API shows its progress and cancels it. It ends at the
message that was the last when it began. A message that moves is in its new queue, on disk where that is
durable, before its old record is acked: a crash in between makes a duplicate, never a loss.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, NamedTuple

from embermq.broker.incremental_work import Pieces, Share
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import names_of
from embermq.broker.message_filter import EVERYTHING, MessageFilter
from embermq.broker.queue import extract
from embermq.broker.queue.arguments import is_name
from embermq.broker.queue.browse import Place, Seen, ends_now, ready_from
from embermq.broker.queue.queue import KEEPS_ALL, KEEPS_NOTHING, Queue, describe
from embermq.broker.security.user import User
from embermq.broker.turn import Turn
from embermq.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.queue.level import Entry

log = logging.getLogger("embermq.tasks")

MOVE, COPY, DELETE, RETURN = "move", "copy", "delete", "return"
RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"

SLICE_COUNT = 250  # messages looked at in one go
SLICE_BYTES = 512 * 1024
SLICE_S = 0.001
ALARM_PAUSE_MS = 500  # while publishers must wait, so must we
RUNNING_MAX = 16
ENDED_KEPT_MAX = 100


class Step(NamedTuple):
    """One message on its way: what was seen, and what goes where (None: nowhere)."""

    seen: Seen
    message: Message
    target: Queue | None


class Task:
    def __init__(
        self,
        tasks: Tasks,
        number: int,
        kind: str,
        source: Queue,
        target: Queue | None,
        wanted: MessageFilter,
        limit: int | None,
        user: User,
    ) -> None:
        self.tasks = tasks
        self.number = number
        self.kind = kind
        self.source = source
        self.target = target
        self.wanted = wanted
        self.limit = limit
        self.user = user
        self.state = RUNNING
        self.reason = ""
        self.scanned = 0
        self.done = 0
        self.skipped = 0  # meant, but nowhere to go
        self.total = source.ready_count  # to be looked at
        self.started_ms = tasks.turn.now_ms
        self.ended_ms = 0
        self.settling = False  # waits for the disk
        self.place: Place | None = None
        self.ends = ends_now(source)
        self.origins: dict[str, Queue | None] = {}
        self.cancelled = False

    def pieces(self) -> Pieces:
        try:
            while self.state == RUNNING:
                yield from self.next_slice()
        except Exception:  # a task that is not advanced any more must not look as if it went on
            log.exception("a fault of ours: task %d, %s from %r", self.number, self.kind, self.source)
            self.end(FAILED, "a fault of the broker's; see its log")

    def next_slice(self) -> Pieces:
        turn = self.tasks.turn
        gone = next(
            (queue for queue in (self.source, self.target) if queue is not None and queue.deleted), None
        )
        if gone is not None:
            self.end(FAILED, f"{describe(gone)} is deleted")
            return
        if turn.alarmed and self.kind != DELETE:
            yield turn.incremental_work.pause(ALARM_PAUSE_MS)
            return
        steps, exhausted = self.find()
        refused = self.carry_out(steps)
        yield turn.after_safe if self.settling else None
        if refused is not None:
            self.end(FAILED, f"{describe(refused)} refuses messages: it is full")
        elif exhausted or (self.limit is not None and self.done >= self.limit):
            self.end(DONE)
        elif self.cancelled:
            self.end(CANCELLED, "cancelled")

    def find(self) -> tuple[list[Step], bool]:
        """The next messages that are meant; True when there are no more to look at."""
        steps: list[Step] = []
        looked_at = 0
        size = 0
        share = Share(SLICE_S)
        for seen in ready_from(self.source, self.place, self.ends):
            self.place = seen.next_place
            looked_at += 1
            size += seen.message.size
            if self.wanted.matches(seen.message):
                step = self.step_for(seen)
                if step is None:
                    self.skipped += 1
                else:
                    steps.append(step)
            full = self.limit is not None and self.done + len(steps) >= self.limit
            if full or looked_at >= SLICE_COUNT or size >= SLICE_BYTES or share.is_over():
                break
        else:
            self.scanned += looked_at
            return steps, True
        self.scanned += looked_at
        return steps, False

    def step_for(self, seen: Seen) -> Step | None:
        if self.kind != RETURN:
            return Step(seen, seen.message, self.target)
        death = last_death(seen.message)
        target = None if death is None else self.origin(death.queue)
        if death is None or target is None or target is self.source:
            return None
        old = seen.message
        names = names_of(death.exchange, death.routing_key)
        message = Message(names, old.content, old.header_size, old.persistent, old.priority, old.publisher)
        message.ttl_ms = old.ttl_ms
        return Step(seen, message, target)

    def origin(self, name: str) -> Queue | None:
        """The queue of that name, if it is there and the user may write to it."""
        if name not in self.origins:
            vhost = self.source.vhost
            try:
                self.user.require("write", vhost.name, "queue", name)
                self.origins[name] = vhost.queues.get(name)
            except AccessRefused:
                self.origins[name] = None
        queue = self.origins[name]
        return None if queue is None or queue.deleted else queue

    def carry_out(self, steps: list[Step]) -> Queue | None:
        """Do it; the queue that refused, if one did: then what was not done is as it was."""
        entries: list[Entry] = []
        if self.kind != COPY:
            entries = extract.withdraw(self.source, [step.seen for step in steps])
        must_wait = False
        for index, step in enumerate(steps):
            target = step.target
            if target is not None:
                if target.append(step.message) != 0:
                    if entries:
                        extract.put_back(self.source, entries[index:])
                    self.settle(entries[:index], must_wait)
                    return target
                must_wait = must_wait or is_kept(step.message, target)
            self.done += 1
        self.settle(entries, must_wait)
        return None

    def settle(self, entries: list[Entry], must_wait: bool) -> None:
        """Ack the old records, after the sync that makes the new ones safe where these are on disk."""
        if not must_wait:
            extract.done_with(entries)
            return
        self.settling = True

        def settled() -> None:
            self.settling = False
            extract.done_with(entries)
            self.source.mark()  # the ring may have met nothing but what was held

        self.tasks.turn.after_safe(settled)

    # -- the end

    def end(self, state: str, reason: str = "") -> None:
        if self.state == RUNNING:
            self.state, self.reason = state, reason
            self.tasks.turn.refresh()
            self.ended_ms = self.tasks.turn.now_ms
            self.tasks.ended(self)

    def cancel(self) -> None:
        """Stop after the slice that is under way; what was done stays done."""
        self.cancelled = True
        if not self.settling:
            self.end(CANCELLED, "cancelled")


def is_kept(message: Message, queue: Queue) -> bool:
    """Is the message on disk in that queue before it is confirmed as safe?"""
    return queue.keeps == KEEPS_ALL or (message.persistent and queue.keeps != KEEPS_NOTHING)


class Death(NamedTuple):
    queue: str
    exchange: str
    routing_key: str


def last_death(message: Message) -> Death | None:
    """Where a dead letter died last, by its x-death."""
    deaths = (message.properties.headers or {}).get("x-death")
    if not isinstance(deaths, list) or not deaths or not isinstance(deaths[0], dict):
        return None
    queue, exchange = deaths[0].get("queue"), deaths[0].get("exchange")
    keys = deaths[0].get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys and isinstance(keys[0], str) else message.routing_key
    if not (isinstance(queue, str) and isinstance(exchange, str) and is_name(exchange) and is_name(key)):
        return None  # no broker has written that
    return Death(queue, exchange, key)


class Tasks:
    """Those that run, and the last that have ended."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.numbers = itertools.count(1)
        self.running: dict[int, Task] = {}
        self.past: dict[int, Task] = {}

    def start(
        self,
        kind: str,
        source: Queue,
        user: User,
        target: Queue | None = None,
        wanted: MessageFilter = EVERYTHING,
        limit: int | None = None,
    ) -> Task:
        if len(self.running) >= RUNNING_MAX:
            raise PreconditionFailed(f"{RUNNING_MAX} tasks are running; wait, or cancel one")
        task = Task(self, next(self.numbers), kind, source, target, wanted, limit, user)
        self.running[task.number] = task
        self.turn.incremental_work.begin(task.pieces(), about=task)
        return task

    def ended(self, task: Task) -> None:
        self.running.pop(task.number, None)
        self.past[task.number] = task
        while len(self.past) > ENDED_KEPT_MAX:
            del self.past[next(iter(self.past))]

    def all(self) -> list[Task]:
        return [*self.past.values(), *self.running.values()]

    def get(self, number: int) -> Task | None:
        return self.running.get(number) or self.past.get(number)

    def cancel_all(self) -> bool:
        """True while some still wait for the disk."""
        for task in list(self.running.values()):
            task.cancel()
        return bool(self.running)
