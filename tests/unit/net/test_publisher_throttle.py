"""Pacing by a clock that the test winds: publishers wait where that pays and are let go where it does not."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import cast

import pytest

from embermq.amqp.connection.state import Pause
from embermq.net.publisher_throttle import (
    JUDGE_S,
    OFF_S_MIN,
    POLL_S,
    QUEUES_REMEMBERED_MAX,
    PublisherThrottle,
)


class Clock:
    """As much of an event loop as pacing needs."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.timers, (self.now + delay, self.count, action))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            self.now, _, action = heapq.heappop(self.timers)
            action()
        self.now = end


class PacedQueue:
    def __init__(self) -> None:
        self.published_count = 0
        self.delivered_count = 0
        self.pressed = self.half_pressed = True

    def is_pressed(self, half: bool = False) -> bool:
        return self.half_pressed if half else self.pressed


class Publisher:
    def __init__(self) -> None:
        self.held = 0
        self.holds = 0

    def pause(self, reason: int) -> None:
        assert reason == Pause.THROTTLE
        self.held += 1
        self.holds += 1

    def resume(self, reason: int) -> None:
        assert reason == Pause.THROTTLE
        self.held -= 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> PublisherThrottle:
    return PublisherThrottle(cast(asyncio.AbstractEventLoop, clock))


def hold(throttle: PublisherThrottle, clock: Clock, publisher: Publisher, queue: PacedQueue) -> None:
    """The first time a publisher is only looked at; it has published a lot when it is held."""
    throttle.hold(publisher, queue)
    if not publisher.held:
        clock.advance(2 * JUDGE_S)
        queue.published_count += 1000
        throttle.hold(publisher, queue)
    assert publisher.held == 1


def test_a_publisher_waits_until_the_queue_has_shrunk_to_half(
    clock: Clock, throttle: PublisherThrottle
) -> None:
    queue, publishers = PacedQueue(), [Publisher(), Publisher()]
    for publisher in publishers:
        hold(throttle, clock, publisher, queue)
    queue.delivered_count += 1000
    queue.pressed = False
    clock.advance(2 * POLL_S)
    assert [publisher.held for publisher in publishers] == [1, 1], "below the mark is not enough"
    queue.half_pressed = False
    clock.advance(POLL_S)
    assert [publisher.held for publisher in publishers] == [0, 0]
    assert not throttle.holds and not clock.timers, "an idle throttle keeps no timer"


def published_at(throttle: PublisherThrottle, clock: Clock, queue: PacedQueue, rate: float) -> Publisher:
    """A publisher that was let go a moment ago, published at this rate since, and is held again."""
    publisher = Publisher()
    queue.half_pressed = False
    hold(throttle, clock, publisher, queue)
    clock.advance(2 * POLL_S)
    assert publisher.held == 0
    queue.half_pressed = True
    clock.advance(0.1)
    queue.published_count += int(rate * 0.1)
    throttle.hold(publisher, queue)
    return publisher


@pytest.mark.parametrize(("part", "waits"), [(0.0, False), (0.05, False), (0.5, True), (2.0, True)])
def test_slow_consumers_are_not_waited_for(
    clock: Clock, throttle: PublisherThrottle, part: float, waits: bool
) -> None:
    queue = PacedQueue()
    publisher = published_at(throttle, clock, queue, rate=100_000)
    assert publisher.held == 1
    for _ in range(40):  # consumers at that part of the publisher's speed
        clock.advance(POLL_S)
        queue.delivered_count += int(100_000 * part * POLL_S)
        if not publisher.held:
            break
    assert publisher.held == int(waits)
    if not waits:
        holds = publisher.holds
        throttle.hold(publisher, queue)
        assert publisher.holds == holds, "the queue is left alone for a while"
        clock.advance(OFF_S_MIN)
        throttle.hold(publisher, queue)
        assert publisher.holds == holds + 1, "and then looked at again"


@pytest.mark.parametrize("idle_s", [0.0, 3600.0])
def test_a_publisher_before_stuck_consumers_is_not_made_to_wait_for_ever(
    clock: Clock, throttle: PublisherThrottle, idle_s: float
) -> None:
    """A job queue: consumers have their hands full, at first and after an hour's rest."""
    queue, publisher = PacedQueue(), Publisher()
    if idle_s:
        queue.half_pressed = False
        hold(throttle, clock, publisher, queue)
        clock.advance(idle_s)
        queue.half_pressed = True
    held_s = 0.0
    for _ in range(1000):  # a second in which one job is done every tenth
        if not publisher.held:
            queue.published_count += 100
            throttle.hold(publisher, queue)
        clock.advance(0.001)
        held_s += 0.001 * publisher.held
        queue.delivered_count = int((clock.now - 100.0) * 10)
    assert held_s < 0.2


def test_consumers_are_judged_again_and_again(clock: Clock, throttle: PublisherThrottle) -> None:
    queue = PacedQueue()
    publisher = published_at(throttle, clock, queue, rate=100_000)
    for _ in range(10):
        queue.delivered_count += 1000
        clock.advance(JUDGE_S)
    assert publisher.held == 1
    clock.advance(3 * JUDGE_S)  # they have stopped
    assert publisher.held == 0


def test_queues_are_judged_apart(clock: Clock, throttle: PublisherThrottle) -> None:
    fast, stuck = PacedQueue(), PacedQueue()
    two = published_at(throttle, clock, stuck, rate=100_000)
    one = published_at(throttle, clock, fast, rate=100_000)
    clock.advance(2 * OFF_S_MIN)
    for publisher, queue in ((one, fast), (two, stuck)):
        if not publisher.held:
            queue.published_count += 40_000
            throttle.hold(publisher, queue)
    assert (one.held, two.held) == (1, 1)
    for _ in range(20):
        fast.delivered_count += 1000
        clock.advance(POLL_S)
    assert (one.held, two.held) == (1, 0)


def test_what_is_remembered_is_bounded(clock: Clock, throttle: PublisherThrottle) -> None:
    for _ in range(2 * QUEUES_REMEMBERED_MAX + 5):
        queue = PacedQueue()
        hold(throttle, clock, Publisher(), queue)
        queue.half_pressed = False
        clock.advance(2 * POLL_S)
    assert len(throttle.rates) <= QUEUES_REMEMBERED_MAX
