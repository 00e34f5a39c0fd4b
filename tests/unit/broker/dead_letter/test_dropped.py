"""Messages that a queue drops for want of a dead-letter exchange: counted, and told of at a bounded rate."""

from __future__ import annotations

import logging

import pytest

from embermq.broker.counters import Counters
from embermq.broker.events import Event
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from tests.support.domain import Loop, constant, message, new_queue, new_vhost
from tests.unit.broker.test_timers import Clock

PAUSE_MS = constant("embermq.broker.dead_letter.dropped", "PAUSE_MS")


def fail_once_too_often(queue: Queue, count: int) -> None:
    """Messages of a queue with the delivery limit 0."""
    for _ in range(count):
        queue.append(message())
    for _ in range(count):
        entry = queue.get()
        assert entry is not None
        queue.requeue([entry])


def test_every_reason_is_counted() -> None:
    loop = Loop()
    vhost = new_vhost(loop)
    fail_once_too_often(new_queue(vhost, "limit", arguments={"x-delivery-limit": 0}), 3)
    short = new_queue(vhost, "length", arguments={"x-max-length": 2})
    for _ in range(6):
        short.append(message())
    for arguments in ({}, {"x-max-length": 10}):
        plain = new_queue(vhost, f"plain {len(arguments)}", arguments=arguments)
        plain.append(message())
        entry = plain.get()
        assert entry is not None
        plain.discard([entry])
    old = new_queue(vhost, "old", arguments={"x-message-ttl": 0})
    old.append(message())
    loop.run()
    for gone in (None, *list(vhost.queues.values())):  # what was counted stays, whichever queues go
        if gone is not None:
            vhost.delete_queue(gone)
        sums = Counters()
        sums.add(vhost.past)
        for queue in vhost.queues.values():
            queue.add_counts_to(sums)
        assert sums.dropped_delivery_limit == 3
        assert sums.dropped_maxlen == 4
        assert sums.dropped_rejected == 2
        assert sums.dropped_expired == 1
        assert sums.dead_delivery_limit == sums.dead_maxlen == sums.dead_rejected == sums.dead_expired == 0


def test_a_dead_letter_is_not_dropped() -> None:
    vhost = new_vhost(Loop())
    arguments = {"x-delivery-limit": 0, "x-dead-letter-exchange": ""}
    fail_once_too_often(new_queue(vhost, arguments=arguments), 2)
    assert (vhost.past.dead_delivery_limit, vhost.past.dropped_delivery_limit) == (2, 0)


def test_people_are_told_of_the_limit_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock, told = Clock(), list[Event]()
    loop = Loop()
    loop.turn = clock.turn
    vhost: VirtualHost = new_vhost(loop)
    vhost.events.listen(told.append)
    queue = new_queue(vhost, arguments={"x-delivery-limit": 0})
    told.clear()
    with caplog.at_level(logging.WARNING, "embermq.queue"):
        for _ in range(10):
            fail_once_too_often(queue, 5)
            clock.pass_ms(PAUSE_MS // 5)
        vhost.dropped.tell()  # as before a stop
    dropped = [event.properties for event in told if event.key == "message.dropped"]
    assert sum(int(str(each["count"])) for each in dropped) == 50
    assert {(each["vhost"], each["queue"], each["reason"]) for each in dropped} == {
        ("/", "q", "delivery_limit")
    }
    assert 2 <= len(dropped) <= 4, "once a minute, in two minutes"
    assert [line.getMessage() for line in caplog.records] == [
        f"queue 'q' in vhost '/': {each['count']} message(s) dropped that came back more often than its "
        "delivery limit allows; it has no dead-letter exchange to keep them"
        for each in dropped
    ]


def test_very_many_queues_are_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    clock, loop = Clock(), Loop()
    loop.turn = clock.turn
    vhost = new_vhost(loop)
    for number in range(60):
        fail_once_too_often(new_queue(vhost, f"q{number}", arguments={"x-delivery-limit": 0}), 2)
    with caplog.at_level(logging.WARNING, "embermq.queue"):
        clock.pass_ms(PAUSE_MS)
    assert len(caplog.records) == 51
    assert (
        caplog.records[-1].getMessage()
        == "10 other queues in vhost '/' have dropped 20 messages by their delivery limits"
    )
