"""A deadline on a real event loop."""

from __future__ import annotations

import asyncio

from embermq.deadline import Deadline


async def until_expired(*, moves_s: list[float], cancelled: bool = False) -> list[str]:
    loop, log = asyncio.get_running_loop(), []
    first = Deadline(loop.call_later, lambda: log.append("first"))
    second = Deadline(loop.call_later, lambda: log.append("second"))
    for after_s in moves_s:
        first.set(after_s)
    second.set(0.05)
    if cancelled:
        first.cancel()
    while second.is_set or first.is_set:
        await asyncio.sleep(0.001)
    return log


def test_the_action_is_done_once_at_the_time_set_last() -> None:
    assert asyncio.run(until_expired(moves_s=[0.0])) == ["first", "second"]
    assert asyncio.run(until_expired(moves_s=[0.0, 0.0, 0.2])) == ["second", "first"]
    assert asyncio.run(until_expired(moves_s=[0.2, 0.0])) == ["first", "second"]


def test_a_cancelled_one_does_nothing() -> None:
    assert asyncio.run(until_expired(moves_s=[0.0, 0.0], cancelled=True)) == ["second"]


def test_an_action_may_set_its_own_deadline_again() -> None:
    async def three_times() -> int:
        count = 0

        def action() -> None:
            nonlocal count
            count += 1
            if count < 3:
                deadline.set(0.0)

        deadline = Deadline(asyncio.get_running_loop().call_later, action)
        deadline.set(0.0)
        while deadline.is_set:
            await asyncio.sleep(0)
        return count

    assert asyncio.run(three_times()) == 3
