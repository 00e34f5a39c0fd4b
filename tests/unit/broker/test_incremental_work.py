"""Long work is done in pieces; several works take turns, and whoever waits for one is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from embermq.broker.incremental_work import Action, Pieces
from embermq.broker.timers import Timers
from embermq.broker.turn import Turn
from tests.support.domain import Loop


def counting(seen: list[str], name: str, pieces: int) -> Iterator[None]:
    for number in range(pieces):
        seen.append(f"{name}{number}")
        yield


@pytest.fixture
def loop() -> Loop:
    loop = Loop()
    loop.turn.incremental_work.share_s = 0.0  # one piece in a turn
    return loop


def test_a_turn_has_one_share_and_works_take_turns(loop: Loop) -> None:
    seen: list[str] = []
    for name in "ab":
        loop.turn.incremental_work.begin(
            counting(seen, name, 3), lambda name=name: seen.append(f"{name} done")
        )
    assert loop.run() >= 6
    assert seen == ["a0", "b0", "a1", "b1", "a2", "b2", "a done", "b done"]
    assert not loop.turn.incremental_work.works


def test_a_share_has_as_many_pieces_as_there_is_time() -> None:
    loop = Loop()
    loop.turn.incremental_work.share_s = 1000.0
    seen: list[str] = []
    loop.turn.incremental_work.begin(counting(seen, "a", 5000))
    assert loop.run() == 1 and len(seen) == 5000


def test_who_waits_for_something_is_told_when_nothing_is_done_to_it(loop: Loop) -> None:
    seen: list[str] = []
    incremental_work, thing, other = loop.turn.incremental_work, object(), object()
    incremental_work.begin(counting(seen, "a", 4), about=thing)
    incremental_work.begin(counting(seen, "b", 9), about=other)
    incremental_work.begin(counting(seen, "c", 2), about=thing)
    incremental_work.when_done(thing, lambda: seen.append("told"))
    assert "told" not in seen
    loop.run()
    assert seen.index("c1") < seen.index("a3") < seen.index("told") < seen.index("b8")
    incremental_work.when_done(thing, lambda: seen.append("told again"))
    assert seen[-1] == "told again"


def test_a_work_that_fails_is_over_and_the_others_go_on(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("spoiled")

    loop.turn.incremental_work.begin(failing(), lambda: seen.append("failed"))
    loop.turn.incremental_work.begin(counting(seen, "b", 3))
    with caplog.at_level(logging.ERROR):
        loop.run()
    assert seen == ["b0", "failed", "b1", "b2"]
    assert "spoiled" in caplog.text


def test_one_who_fails_when_told_keeps_nobody_waiting(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    thing = object()

    def fail() -> None:
        raise RuntimeError("spoiled")

    loop.turn.incremental_work.begin(counting(seen, "a", 1), fail, about=thing)
    loop.turn.incremental_work.when_done(thing, lambda: seen.append("told"))
    loop.turn.incremental_work.begin(counting(seen, "b", 3))
    with caplog.at_level(logging.ERROR):
        loop.run()
    assert seen == ["a0", "b0", "told", "b1", "b2"]
    assert "spoiled" in caplog.text


def test_a_clean_stop_finishes_what_is_under_way(loop: Loop) -> None:
    seen: list[str] = []
    loop.turn.incremental_work.begin(counting(seen, "a", 100))
    loop.turn.finish()
    assert len(seen) == 100


def test_a_work_that_waits_lets_the_others_pass_until_it_is_called(loop: Loop) -> None:
    seen: list[str] = []
    resume: list[Action] = []
    work, thing = loop.turn.incremental_work, object()

    def waiting() -> Pieces:
        seen.append("before")
        yield resume.append
        seen.append("after")

    work.begin(waiting(), about=thing)
    work.when_done(thing, lambda: seen.append("told"))
    work.begin(counting(seen, "b", 2))
    loop.run()
    assert seen == ["before", "b0", "b1"] and work.about(thing)
    work.finish_about(thing)
    assert seen[-1] == "b1", "what waits is not hurried"
    resume[0]()
    resume[0]()  # it is not advanced twice
    loop.run()
    assert seen[3:] == ["after", "told"] and not work.about(thing)


def test_a_stop_does_not_begin_again_with_what_waits(loop: Loop) -> None:
    resume: list[Action] = []

    def waiting() -> Pieces:
        yield resume.append
        raise AssertionError("it goes on after the stop")

    assert loop.turn.incremental_work.start(waiting())
    loop.turn.finish()
    resume[0]()
    loop.run()
    assert len(loop.turn.incremental_work.waiting) == 1


def test_a_pause_is_kept_by_the_timers(loop: Loop) -> None:
    seen: list[str] = []
    calls: list[tuple[float, Action]] = []
    loop.turn = Turn(loop.scheduled.append, lambda: 1000.0 + sum(after_s for after_s, _ in calls))
    loop.turn.timers = Timers(loop.turn, lambda *call: calls.append(call) or NoTimer())  # type: ignore[func-returns-value]
    work = loop.turn.incremental_work

    def pausing() -> Pieces:
        yield work.pause(500)
        seen.append("awake")

    work.begin(pausing())
    loop.run()
    assert seen == [] and [after_s for after_s, _ in calls] == [0.5]
    calls[0][1]()
    loop.run()
    assert seen == ["awake"]


class NoTimer:
    def cancel(self) -> None:
        pass
