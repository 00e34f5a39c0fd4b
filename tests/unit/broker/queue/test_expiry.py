"""Time to live by two clocks: messages go by the time of day, queues by how long nobody used them."""

from __future__ import annotations

import pytest

from embermq.broker.timers import Timers
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from tests.support.domain import Loop, message, new_queue, new_vhost
from tests.unit.broker.queue.test_length_limit import Clockwork

HOUR_S = 3600.0


class TwoClocks(Clockwork):
    """Time passes for both; somebody may set the one on the wall."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0
        self.uptime_s = 5.0
        self.due = []
        self.loop = Loop()
        self.loop.turn = Turn(self.loop.scheduled.append, lambda: self.now_s, lambda: self.uptime_s)
        self.loop.turn.timers = Timers(self.loop.turn, self.call_later)
        self.vhost: VirtualHost = new_vhost(self.loop)

    def step(self, after_s: float = 0.002) -> None:
        self.uptime_s += after_s
        super().step(after_s)


@pytest.mark.parametrize("set_by_s", [-HOUR_S, HOUR_S])
def test_a_queue_is_not_unused_for_longer_when_the_clock_is_set(set_by_s: float) -> None:
    clocks = TwoClocks()
    queue = new_queue(clocks.vhost, arguments={"x-expires": 60_000})
    queue.append(message(b"kept"))
    clocks.step(30)
    clocks.now_s += set_by_s
    clocks.step(29)
    assert not queue.deleted
    queue.get()
    clocks.step(31)
    assert not queue.deleted, "it was used"
    for _ in range(5):
        clocks.step(15 + max(-set_by_s, 0))
    assert queue.deleted


def test_a_message_expires_by_the_clock() -> None:
    clocks = TwoClocks()
    queue = new_queue(clocks.vhost, arguments={"x-message-ttl": 60_000})
    queue.append(message(b"old"))
    clocks.step(30)
    assert queue.ready_count == 1
    clocks.now_s += HOUR_S
    clocks.step()
    assert queue.ready_count == 0
