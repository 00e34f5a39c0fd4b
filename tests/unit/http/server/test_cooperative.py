"""Long work in small steps: the same results as in one, rests only where somebody needs the loop."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

import pytest

from embermq.broker.turn import Turn
from embermq.http.server import cooperative as pace_module
from embermq.http.server.cooperative import STEPS_IN_A_ROW, Steps, StepScheduler
from embermq.http.server.request import encode
from embermq.wire.table import Timestamp


class Loop:
    """Notes for when something is called, and calls it when asked to go on."""

    def __init__(self) -> None:
        self.rests: list[float] = []
        self.due: list[Callable[[], None]] = []

    def call_soon(self, work: Callable[..., None], *arguments: object) -> None:
        self.call_later(0.0, work, *arguments)

    def call_later(self, seconds: float, work: Callable[..., None], *arguments: object) -> None:
        self.rests.append(seconds)
        self.due.append(lambda: work(*arguments))

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.Future()

    def go_on(self) -> None:
        due, self.due = self.due, []
        for work in due:
            work()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr(pace_module.asyncio, "get_running_loop", lambda: loop)
    return loop


def gate_of(turn: Turn | None = None) -> StepScheduler:
    return StepScheduler(turn or Turn(lambda work: None))


def in_a_loop(work: Callable[[], None]) -> None:
    async def run() -> None:
        work()

    asyncio.run(run())


def test_rests_while_messages_go_by_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    turn, now = Turn(lambda work: None), [1.0]
    monkeypatch.setattr(pace_module.time, "perf_counter", lambda: now[0])
    scheduler = gate_of(turn)
    assert not scheduler.is_needed()
    turn.run()
    assert scheduler.is_needed()
    assert scheduler.is_needed()  # nothing came meanwhile, but it is not long ago
    now[0] += 2 * pace_module.QUIET_S
    assert not scheduler.is_needed()


def test_a_rest_after_a_few_steps(loop: Loop) -> None:
    def work() -> None:
        scheduler = gate_of()
        scheduler.busy_until = math.inf
        for _ in range(2 * STEPS_IN_A_ROW):
            passed = scheduler.passage()
            loop.go_on()
            assert passed.done()

    in_a_loop(work)
    assert loop.rests == 2 * [*[0.0] * (STEPS_IN_A_ROW - 1), pace_module.REST_S]


def test_one_after_the_other_however_many_there_are(loop: Loop) -> None:
    def work() -> None:
        scheduler = gate_of()
        waiting = [scheduler.passage() for _ in range(5)]
        waiting[2].cancel()  # somebody hung up
        for passed in range(1, 6):
            loop.go_on()
            assert [future.done() for future in waiting if not future.cancelled()] == [
                number < passed for number in (0, 1, 3, 4)
            ]
        loop.go_on()
        assert not scheduler.waiting and not loop.due

    in_a_loop(work)


def test_no_wait_before_a_step_is_over(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "STEP_S", 1e9)

    async def work() -> None:
        steps = Steps(gate_of())
        for _ in range(10):
            await steps.pause()

    asyncio.run(work())
    assert loop.rests == []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_sorted_in_steps_is_sorted(size: int, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with equal keys, too, stand as `sorted` leaves them."""
    monkeypatch.setattr(pace_module, "STEP_S", -1.0)
    items = [(random.Random(number).randrange(50), object()) for number in range(size)]
    expected = sorted(items, key=lambda item: item[0], reverse=reverse)
    scheduler = gate_of()

    async def work(count: int) -> list[tuple[int, object]]:
        return await Steps(scheduler).sorted(items, lambda item: item[0], reverse, count)

    for count in (0, 1, size // 2, size, size + 1):
        assert asyncio.run(work(count)) == expected[:count]
    assert scheduler.step_count >= size


def test_anything_becomes_json() -> None:
    assert encode({"name": "Zoë", "n": 1.5, "none": None}) == '{"name":"Zoë","n":1.5,"none":null}'.encode()
    assert encode({"at": Timestamp(7)}) == b'{"at":7}'
    assert encode({"name": "caf\udce9"}) == b'{"name":"caf\\udce9"}'
    assert encode([2**63, -(2**63), 2**70]) == b"[9223372036854775808,-9223372036854775808,%d]" % 2**70
