"""On whose behalf things happen, and which of them are worth an audit."""

from __future__ import annotations

import asyncio
import logging

import pytest

from embermq.app.log_setup import AUDIT, Audit
from embermq.broker.events import INTERNAL_USER, Event, Events
from tests.support.domain import Loop, Taker, new_queue, new_vhost


def test_who_acts_is_known_across_pauses_in_which_others_act() -> None:
    events, told = Events(), list[Event]()
    events.listen(told.append)

    async def work(name: str) -> str:
        for step in range(3):
            events.emit(f"{name}.{step}", dict)
            await asyncio.sleep(0)
        return name

    async def both() -> list[str]:
        return await asyncio.gather(*(events.acting_throughout(name, work(name)) for name in ("ann", "bob")))

    assert asyncio.run(both()) == ["ann", "bob"]
    assert [event.key for event in told[:4]] == ["ann.0", "bob.0", "ann.1", "bob.1"]
    assert all(event.key.startswith(event.actor) for event in told)
    assert events.actor == INTERNAL_USER


def test_a_failure_and_a_cancellation_pass_through() -> None:
    events, seen = Events(), list[str]()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(events.actor)

    async def scenario() -> None:
        with pytest.raises(ValueError, match="no"):
            await events.acting_throughout("ann", fails())
        task = asyncio.ensure_future(asyncio.wait_for(events.acting_throughout("bob", waits()), None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert seen == ["bob"]
    assert events.actor == INTERNAL_USER


def test_what_clients_have_for_themselves_is_in_no_audit(caplog: pytest.LogCaptureFixture) -> None:
    """Neither when it comes nor when it goes: exclusive queues, queues without a name, direct replies."""
    vhost, told, owner = new_vhost(Loop()), list[Event](), object()
    vhost.events.listen(told.append)
    Audit(vhost.events)
    with caplog.at_level(logging.INFO, AUDIT):
        vhost.delete_queue(new_queue(vhost, "mine", exclusive=True, owner=owner))
        vhost.delete_queue(new_queue(vhost, ""))
        vhost.delete_queue(new_queue(vhost, "orders"))
        replies = vhost.add_reply_queue("amq.rabbitmq.reply-to.", owner)
        consumer = Taker(replies, no_ack=True)
        replies.add_consumer(consumer)
        replies.remove_consumer(consumer)
        assert replies.deleted
    assert [event.key for event in told] == ["queue.created", "queue.deleted"] * 3
    assert [event.properties["exclusive"] for event in told] == [True, True, False, False, False, False]
    assert [line.getMessage().split(" by ")[0] for line in caplog.records] == [
        "queue.created",
        "queue.deleted",
    ]
    assert all("orders" in line.getMessage() for line in caplog.records)
