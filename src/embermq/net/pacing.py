"""Pacing: a publisher at full speed waits for consumers that are nearly as fast.

A broker spends its time on whoever sends most, so a flooding publisher would leave the acknowledgements of
a fast consumer waiting and let the queue grow without bound. When a queue with consumers grows past a mark,
its publishers are not read from until it has shrunk to half.

Waiting must pay: where the consumers turn out to be slow by themselves (a job queue being filled), waiting
for them would only slow down the publisher, so holding is called off for a while. TCP tells the publisher.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

POLL_S = 0.001
JUDGE_S = 0.005  # how long consumers have to show their speed
RATE_S_MAX = 1.0  # a publish rate measured over a longer time says nothing of now
OFF_S = 0.1  # how long a queue is left alone whose consumers are slow
WORTH_WAITING_RATIO = 0.2  # consumers at this part of the publishers' speed are waited for
QUEUES_REMEMBERED_MAX = 1000


class Queue(Protocol):
    """What pacing looks at; the domain's queues are such."""

    @property
    def published_count(self) -> int: ...

    @property
    def delivered_count(self) -> int: ...

    def is_pressed(self, half: bool = False) -> bool: ...


class Publisher(Protocol):
    def hold(self) -> None: ...

    def release(self) -> None: ...


@dataclass
class Hold:
    since: float
    published: int
    delivered: int
    publish_rate: float
    publishers: list[Publisher] = field(default_factory=list)


class Pacer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.holds: dict[Queue, Hold] = {}
        self.released: dict[Queue, tuple[float, int]] = {}  # when and at which count publishers were let go
        self.off_until: dict[Queue, float] = {}

    def hold(self, publisher: Publisher, queue: Queue) -> None:
        """The publisher has filled the queue past its mark; pause it unless that is known not to pay."""
        hold = self.holds.get(queue)
        if hold is None:
            now = self.loop.time()
            if now < self.off_until.get(queue, 0.0):
                return
            began, count = self.released.get(queue, (0.0, 0))
            if now - began > RATE_S_MAX:
                # How fast it is filled is not known: see, before anybody is made to wait for it.
                self.remember(queue, now)
                self.off_until[queue] = now + JUDGE_S
                return
            rate = (queue.published_count - count) / max(now - began, POLL_S)
            hold = self.holds[queue] = Hold(now, queue.published_count, queue.delivered_count, rate)
            if len(self.holds) == 1:
                self.loop.call_later(POLL_S, self.poll)
        hold.publishers.append(publisher)
        publisher.hold()

    def poll(self) -> None:
        now = self.loop.time()
        for queue, hold in list(self.holds.items()):
            if not queue.is_pressed(half=True):
                self.let_go(queue, hold, now)
            elif now - hold.since >= JUDGE_S:
                taken = queue.delivered_count - hold.delivered
                if taken < WORTH_WAITING_RATIO * hold.publish_rate * (now - hold.since):
                    self.let_go(queue, hold, now)
                    self.off_until[queue] = now + OFF_S
                else:
                    hold.since, hold.delivered = now, queue.delivered_count
        if self.holds:
            self.loop.call_later(POLL_S, self.poll)

    def let_go(self, queue: Queue, hold: Hold, now: float) -> None:
        del self.holds[queue]
        self.remember(queue, now)
        for publisher in hold.publishers:
            publisher.release()

    def remember(self, queue: Queue, now: float) -> None:
        """From here on the speed of the publishers is measured."""
        if len(self.released) >= QUEUES_REMEMBERED_MAX:
            self.released.clear()
            self.off_until.clear()
        self.released[queue] = (now, queue.published_count)
