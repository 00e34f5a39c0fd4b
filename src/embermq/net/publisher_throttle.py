"""Publisher throttle: a publisher at full speed waits for consumers that are nearly as fast.

A publisher at full speed would get most of the broker's time, leave the acknowledgements of a fast consumer
waiting and let the queue grow without bound. When a queue with consumers grows past a mark, its publishers
are not read from until it has shrunk to half.

Waiting must pay: where the consumers are slow by themselves (a job queue being filled), waiting for them
would only slow down the publisher, so its queue is left alone for a while. See docs/flow-control.md.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from embermq.amqp.connection.state import Pause
from embermq.deadline import Deadline

POLL_S = 0.001
JUDGE_S = 0.01  # how long consumers have to show their speed
RATE_S_MIN = 0.05  # a publish rate is measured over at least this, waiting included
RATE_S_MAX = 1.0  # one measured over a longer time says nothing of now
OFF_S_MIN = 0.02  # how long a queue is left alone whose consumers were slow just once ...
OFF_S_MAX = 0.32  # ... and time and again
WORTH_WAITING_RATIO = 0.1  # consumers at this part of the publishers' speed are waited for
QUEUES_REMEMBERED_MAX = 1000


class Queue(Protocol):
    """What is measured of a queue."""

    @property
    def published_count(self) -> int: ...

    @property
    def delivered_count(self) -> int: ...

    def is_pressed(self, half: bool = False) -> bool: ...


class Publisher(Protocol):
    """A connection."""

    def pause(self, reason: int) -> None: ...

    def resume(self, reason: int) -> None: ...


@dataclass
class PublishRate:
    """What is known of one queue: how fast it is filled, and whether waiting has paid lately."""

    since: float
    published: int
    rate: float = 0.0  # publishes per second over a while, the time spent waiting included
    off_until: float = 0.0
    off_s: float = OFF_S_MIN

    def measure(self, now: float, published: int) -> None:
        elapsed = now - self.since
        if elapsed >= RATE_S_MIN or self.rate == 0.0:
            self.rate = (published - self.published) / max(elapsed, POLL_S)
            self.since, self.published = now, published


@dataclass
class Hold:
    since: float
    delivered: int
    publish_rate: float
    publishers: list[Publisher] = field(default_factory=list)


class PublisherThrottle:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.deadline = Deadline(loop.call_later, self.poll)
        self.holds: dict[Queue, Hold] = {}
        self.rates: dict[Queue, PublishRate] = {}

    def hold(self, publisher: Publisher, queue: Queue) -> None:
        """The publisher has filled the queue past its mark; pause it unless that is known not to pay."""
        hold = self.holds.get(queue)
        if hold is None:
            now = self.loop.time()
            known = self.rates.get(queue)
            if known is None or now - known.since > RATE_S_MAX:
                self.begin(queue, now)
                return
            if now < known.off_until:
                return
            known.measure(now, queue.published_count)
            hold = self.holds[queue] = Hold(now, queue.delivered_count, known.rate)
            if not self.deadline.is_set:
                self.deadline.set(POLL_S)
        hold.publishers.append(publisher)
        publisher.pause(Pause.THROTTLE)

    def begin(self, queue: Queue, now: float) -> None:
        """How fast the queue is filled is not known: measure it before any publisher waits."""
        if len(self.rates) >= QUEUES_REMEMBERED_MAX:
            self.rates.clear()
        self.rates[queue] = PublishRate(now, queue.published_count, off_until=now + JUDGE_S)

    def poll(self) -> None:
        now = self.loop.time()
        for queue, hold in list(self.holds.items()):
            if not queue.is_pressed(half=True):
                self.let_go(queue, hold)
                self.waiting_paid(queue)
            elif now - hold.since >= JUDGE_S:
                taken = queue.delivered_count - hold.delivered
                if taken < WORTH_WAITING_RATIO * hold.publish_rate * (now - hold.since):
                    self.let_go(queue, hold)
                    self.waiting_did_not_pay(queue, now)
                else:
                    hold.since, hold.delivered = now, queue.delivered_count
        if self.holds:
            self.deadline.set(POLL_S)

    def waiting_paid(self, queue: Queue) -> None:
        known = self.rates.get(queue)
        if known is not None:
            known.off_s = OFF_S_MIN

    def waiting_did_not_pay(self, queue: Queue, now: float) -> None:
        """Leave the queue alone for a while: short the first time, longer each time it happens again."""
        known = self.rates.get(queue)
        if known is not None:
            known.off_until = now + known.off_s
            known.off_s = min(2 * known.off_s, OFF_S_MAX)

    def let_go(self, queue: Queue, hold: Hold) -> None:
        del self.holds[queue]
        for publisher in hold.publishers:
            publisher.resume(Pause.THROTTLE)
