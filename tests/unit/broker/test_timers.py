"""One timer for all who wait for a time: each is called when it is due, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embermq.broker.timers import AGAIN_MS, Timers
from embermq.broker.turn import Turn


class Clock:
    """Time passes when a test says so; turns run at once."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.timer: tuple[float, Callable[[], None]] | None = None
        self.scheduled: list[Callable[[], None]] = []
        self.turn = Turn(self.scheduled.append, lambda: (self.now_ms + 0.5) / 1000)
        self.timers = self.turn.timers = Timers(self.turn, self.call_later)

    def call_later(self, after_s: float, action: Callable[[], None]) -> Clock:
        self.timer = (self.now_ms + 1000 * after_s, action)
        return self

    def cancel(self) -> None:
        self.timer = None

    def pass_ms(self, count: int) -> None:
        self.now_ms += count
        while self.timer is not None and self.timer[0] <= self.now_ms:
            (_, action), self.timer = self.timer, None
            action()
        self.run_turns()

    def run_turns(self) -> None:
        while self.scheduled:
            self.scheduled.pop(0)()


class Waiting:
    """Notes when it was called; the first times may fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.called_ms: list[int] = []

    def on_due(self, now_ms: int) -> None:
        self.called_ms.append(now_ms)
        if len(self.called_ms) <= self.failures:
            raise OSError("too many open files")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_is_called_at_its_time(clock: Clock) -> None:
    early, late = Waiting(), Waiting()
    clock.timers.ask(1_000_020, late)
    clock.timers.ask(1_000_010, early)
    for _ in range(4):
        clock.pass_ms(7)
    assert (early.called_ms, late.called_ms) == ([1_000_014], [1_000_021])


def test_one_that_fails_holds_up_nobody_and_is_called_again(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    unlucky, same_time, later = Waiting(failures=2), Waiting(), Waiting()
    clock.timers.ask(1_000_010, unlucky)
    clock.timers.ask(1_000_010, same_time)
    clock.timers.ask(1_000_020, later)
    clock.pass_ms(10)
    clock.pass_ms(10)
    assert (same_time.called_ms, later.called_ms) == ([1_000_010], [1_000_020])
    for _ in range(4):
        clock.pass_ms(AGAIN_MS)
    assert len(unlucky.called_ms) == 3
    assert caplog.text.count("could not be done") == 2


def test_what_cannot_be_read_is_drained_again(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    class Queue:
        dirty = False
        drains = 0

        def drain(self) -> bool:
            self.drains += 1
            if self.drains < 3:
                raise OSError("too many open files")
            return False

    queue = Queue()
    clock.turn.add_queue(queue)
    clock.run_turns()
    for drains in (1, 2, 3, 3):
        assert queue.drains == drains
        clock.pass_ms(AGAIN_MS)
    assert caplog.text.count("cannot read") == 2
