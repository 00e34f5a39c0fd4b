"""Long work in small steps: the same results as in one, rests only where somebody needs the loop."""

from __future__ import annotations

import asyncio
import random

import pytest

from embermq.broker.turn import Turn
from embermq.http import pace as pace_module
from embermq.http.pace import Pace
from embermq.http.request import encode
from embermq.wire.table import Timestamp


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each rest was to be; steps end at every breath."""
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(pace_module, "STEP_S", -1.0)
    monkeypatch.setattr(pace_module.asyncio, "sleep", sleep)
    return rests


def test_rests_while_messages_go_by_and_only_then(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn(lambda work: None)
    now = [0.0]
    monkeypatch.setattr(pace_module.time, "perf_counter", lambda: now[0])

    async def work() -> None:
        pace = Pace(turn)
        await pace.breathe()
        turn.run()
        await pace.breathe()
        await pace.breathe()  # nothing came meanwhile, but it is not long ago
        now[0] += 2 * pace_module.QUIET_S
        await pace.breathe()

    asyncio.run(work())
    assert slept == [0, pace_module.REST_S, pace_module.REST_S, 0]


def test_no_rest_before_a_step_is_over(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "STEP_S", 1e9)

    async def work() -> None:
        pace = Pace(Turn(lambda work: None))
        for _ in range(10):
            await pace.breathe()

    asyncio.run(work())
    assert slept == []


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_sorted_in_steps_is_sorted(slept: list[float], size: int, reverse: bool) -> None:
    """Those with equal keys, too, stand as `sorted` leaves them."""
    items = [(random.Random(number).randrange(50), number) for number in range(size)]
    expected = sorted(items, key=lambda item: item[0], reverse=reverse)

    async def work(count: int) -> list[tuple[int, int]]:
        pace = Pace(Turn(lambda work: None))
        return await pace.sorted(items, lambda item: item[0], reverse, count)

    for count in (0, 1, size // 2, size, size + 1):
        assert asyncio.run(work(count)) == expected[:count]
    assert len(slept) >= size


def test_anything_becomes_json() -> None:
    assert encode({"name": "Zoë", "n": 1.5, "none": None}) == '{"name":"Zoë","n":1.5,"none":null}'.encode()
    assert encode({"at": Timestamp(7)}) == b'{"at":7}'
    assert encode({"name": "caf\udce9"}) == b'{"name":"caf\\udce9"}'
    assert encode([2**63, -(2**63), 2**70]) == b"[9223372036854775808,-9223372036854775808,%d]" % 2**70
