"""A backlog that expires, or is too long all of a sudden, goes in steps; others come between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embermq.broker.policy.policy import POLICY, policy_from
from embermq.broker.queue import expiry
from embermq.broker.queue import length_limit as limits
from embermq.broker.queue.queue import Queue
from embermq.broker.timers import Timers
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from tests.support.domain import Loop, message, new_queue, new_vhost

COUNT = 500
AT_ONCE = 33  # about what goes without a look at the clock


class Hurry:
    """A share of a turn that is over as soon as it begins."""

    def is_over(self) -> bool:
        return True


class NoTimer:
    def cancel(self) -> None:
        pass


class Clockwork:
    """A virtual host whose time passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.due: list[Callable[[], None]] = []
        loop = Loop()
        loop.turn = Turn(loop.scheduled.append, lambda: self.now_s)
        loop.turn.timers = Timers(loop.turn, self.call_later)
        self.loop = loop
        self.vhost: VirtualHost = new_vhost(loop)

    def call_later(self, after_s: float, action: Callable[[], None]) -> NoTimer:
        self.due = [action]
        return NoTimer()

    def step(self, after_s: float = 0.002) -> None:
        """The timer that was set goes off."""
        self.now_s += after_s
        due, self.due = self.due, []
        for action in due:
            action()
        self.loop.run()


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    for module in (expiry, limits):
        monkeypatch.setattr(module, "Share", Hurry)
    return Clockwork()


def filled(queue: Queue) -> Queue:
    for number in range(COUNT):
        queue.append(message(b"%d" % number))
    return queue


def letters_to(name: str) -> dict[str, object]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}


def bodies(queue: Queue) -> list[int]:
    return [int(found.body) for found in queue.messages()]


@pytest.mark.parametrize("letters", [False, True])
def test_a_backlog_that_expires_goes_in_steps_and_in_order(clockwork: Clockwork, letters: bool) -> None:
    dead = new_queue(clockwork.vhost, "dead")
    more = letters_to("dead") if letters else {}
    queue = filled(new_queue(clockwork.vhost, arguments={"x-message-ttl": 5000, **more}))
    clockwork.step(6)
    left = [queue.ready_count]
    assert COUNT - AT_ONCE <= left[0] < COUNT, "one timer is not for all of them"
    while left[-1]:
        clockwork.step()
        left.append(queue.ready_count)
        assert left[-1] < left[-2]
    assert len(left) > COUNT // AT_ONCE
    assert bodies(dead) == (list(range(COUNT)) if letters else [])


def test_a_queue_that_a_policy_makes_too_long_is_cut_in_steps(clockwork: Clockwork) -> None:
    dead = new_queue(clockwork.vhost, "dead")
    queue = filled(new_queue(clockwork.vhost, arguments=letters_to("dead")))
    body = {"pattern": "^q$", "definition": {"max-length": 10}, "priority": 0, "apply-to": "all"}
    clockwork.vhost.policies.set(POLICY, policy_from("short", body, False))
    for _ in range(100):
        if dead.ready_count:
            break
        clockwork.step()  # one thing at a time: the policy comes to our queue after some others
    assert queue.ready_count >= COUNT - AT_ONCE
    before = queue.ready_count
    queue.append(message(b"%d" % COUNT))
    assert queue.ready_count == before + 1, "a publisher does not have to do what is left"
    for _ in range(COUNT):
        clockwork.step()
    assert bodies(queue) == list(range(COUNT - 9, COUNT + 1))
    assert bodies(dead) == list(range(COUNT - 9))
    queue.append(message(b"%d" % (COUNT + 1)))
    assert queue.ready_count == 10, "from now on each makes its own room"
