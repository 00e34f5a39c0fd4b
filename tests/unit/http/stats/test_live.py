"""Live numbers: computed while there is a listener, out of the history where there is much to walk over."""

from __future__ import annotations

import asyncio

import pytest

from embermq.http.stats import live
from tests.support.http_api import Desk


def test_nothing_is_computed_without_a_listener(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.001)
    numbers = desk.api.context.live
    listeners = len(desk.broker.events.listeners)

    async def listen() -> int:
        numbers.enter()
        numbers.enter()
        first = await numbers.next()
        assert first.elapsed_ms > 0 and list(first.sums) == ["/"]
        numbers.leave()
        second = await numbers.next()
        numbers.leave()
        await asyncio.sleep(0.05)
        assert numbers.task is None and numbers.snapshot is None
        return second.number - first.number

    assert desk.run(listen()) == 1
    assert len(desk.broker.events.listeners) == listeners


def test_changes_are_told_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.001)
    numbers = desk.api.context.live

    async def listen() -> None:
        numbers.enter()
        await numbers.next()
        desk.broker.vhosts["/"].declare_queue(
            "q", owner=0, durable=False, exclusive=False, auto_delete=False, arguments={}
        )
        assert ("queues", "/") in (await numbers.next()).changed
        assert (await numbers.next()).changed == set()
        numbers.leave()

    desk.run(listen())


def test_a_large_broker_is_not_walked_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "THINGS_MAX", 0)
    numbers, history = desk.api.context.live, desk.api.context.history

    async def sampled() -> None:
        await history.sample()
        numbers.snapshot = await numbers.take()
        assert numbers.snapshot is not None and numbers.snapshot.sums is history.sums
        assert await numbers.take() is None
        await history.sample()
        history.time_ms += 1
        assert (await numbers.take()) is not None

    desk.run(sampled())
