"""One timer for all who wait: what is wrong with one of them must not stop the others' time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embermq.broker import timetable as module
from embermq.broker.timetable import Timetable
from tests.unit.broker.world import Loop


class Timers:
    """Due when a test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timers:
        self.calls = [call]
        return self

    def cancel(self) -> None:
        self.calls = []

    def run(self) -> None:
        self.calls.pop()()


class Waiting:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0

    def on_due(self, now_ms: int) -> None:
        self.times += 1
        if self.errors:
            raise self.errors.pop()


@pytest.mark.parametrize(
    ("error", "times"), [(OSError("the disk does not answer"), 2), (ZeroDivisionError("a fault of ours"), 1)]
)
def test_who_fails_stops_nobody_else(
    error: Exception, times: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_MS", 1)
    timers, turn = Timers(), Loop().turn
    table = Timetable(turn, timers.call_later)
    failing, next_one, last = Waiting(error), Waiting(), Waiting()
    table.ask(turn.now_ms, failing)
    table.ask(turn.now_ms, next_one)
    table.ask(turn.now_ms + 2, last)
    while last.times == 0:  # two milliseconds of the machine's clock
        timers.run()
    assert (failing.times, next_one.times) == (times, 1)
    assert str(error) in caplog.text
