"""Leases that nobody comes back for: the log tells of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embermq.broker.broker import Broker
from embermq.broker.turn import Turn
from tests.unit.broker.world import message, new_queue

BODY = bytes(100)


def test_one_that_has_been_open_for_a_day_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 1_000_000.0
    timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(delay_s: float, action: Callable[[], None]) -> Nothing:
        timers.append((delay_s, action))
        return Nothing()

    scheduled: list[Callable[[], None]] = []
    broker = Broker(Turn(scheduled.append, lambda: now_s), call_later=call_later)
    broker.create_defaults()
    vhost = broker.vhosts["/"]
    queue = new_queue(vhost)
    for _ in range(3):
        queue.append(message(BODY))
    for name, later_s in (("settled", 0), ("first", 10), ("second", 20_000)):
        now_s += later_s
        vhost.turn.refresh()
        lease = vhost.leases.begin(queue, name, 0)
        list(vhost.leases.taking(lease, 1, 1_000_000))
        if name == "settled":
            vhost.leases.settle(lease)
    told = []
    for _ in range(5):
        now_s += 40_000
        vhost.turn.refresh()
        for _, action in [timers.pop() for _ in timers]:
            action()
        told.append([name for name in ("settled", "first", "second") if f"'{name}'" in caplog.text])
    assert told == [[], ["first"], ["first", "second"], ["first", "second"], ["first", "second"]]
    assert caplog.text.count("has kept 1 messages for a day") == 2


class Nothing:
    def cancel(self) -> None:
        """A timer of this test."""
