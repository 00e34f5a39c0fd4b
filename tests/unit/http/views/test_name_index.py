"""Queues in the order of their names: mended as they come and go, also while it is being mended."""

from __future__ import annotations

import asyncio
import random

import pytest

from embermq.broker.vhost import VirtualHost
from embermq.http.server import cooperative as pace_module
from embermq.http.views import name_index as name_order
from embermq.http.views.name_index import NameOrder
from tests.support.http_api import Desk


def declare(vhost: VirtualHost, name: str) -> None:
    vhost.declare_queue(name, owner=None, durable=False, exclusive=False, auto_delete=False, arguments={})


def change(vhost: VirtualHost, dice: random.Random) -> None:
    """Declare one that is not there, or delete one that is; names come back."""
    name = f"queue-{dice.randrange(40):02}"
    if name in vhost.queues:
        vhost.delete_queue(vhost.queues[name])
    else:
        declare(vhost, name)


@pytest.mark.parametrize("mended_max", [0, 3, 1000])
def test_the_order_is_right_whatever_came_and_went(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, mended_max: int
) -> None:
    monkeypatch.setattr(name_order, "MENDED_MAX", mended_max)
    monkeypatch.setattr(name_order, "LOOKED_AT_TOGETHER", 4)
    vhost, dice, order = desk.broker.vhosts["/"], random.Random(7), NameOrder()

    async def work() -> None:
        for _ in range(200):
            for _ in range(dice.randrange(6)):
                change(vhost, dice)
            found = await order.queues(vhost, desk.api.context.scheduler)
            assert found == [vhost.queues[name] for name in sorted(vhost.queues)]

    desk.run(work())


def test_what_changes_meanwhile_is_mended_next_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "STEP_S", -1.0)  # every breath is a step, in which others go on
    monkeypatch.setattr(name_order, "LOOKED_AT_TOGETHER", 4)
    vhost, dice, order = desk.broker.vhosts["/"], random.Random(11), NameOrder()
    scheduler = desk.api.context.scheduler

    async def work() -> None:
        for _ in range(30):
            asking = [asyncio.ensure_future(order.queues(vhost, scheduler)) for _ in range(3)]
            while not all(task.done() for task in asking):
                change(vhost, dice)
                await asyncio.sleep(0)
            for task in asking:
                names = [queue.name for queue in await task]
                assert names == sorted(names)
            found = await order.queues(vhost, scheduler)
            assert found == [vhost.queues[name] for name in sorted(vhost.queues)]

    desk.run(work())


def test_a_virtual_host_of_the_same_name_is_another(desk: Desk) -> None:
    for queue in ("first", "second"):
        desk.put("/api/vhosts/place")
        desk.put(f"/api/queues/place/{queue}")
        assert desk.names("/api/queues/place") == [queue]
        assert desk.ask("DELETE", "/api/vhosts/place").status == 204
