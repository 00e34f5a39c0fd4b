"""Identities over restarts: a message that was here is known, however its acks came to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.message.message import Message
from embermq.broker.queue.length_limit import ACCEPTED, REFUSED
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.wire.properties import Properties
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker
from tests.unit.broker.queue.test_expiry import TwoClocks

COUNT = 6


def identified(number: int) -> Message:
    properties = Properties(headers={"x-deduplication-id": f"id {number}"}, delivery_mode=2)
    return message(b"%d" % number, persistent=True, properties=properties.encode())


def taken(queue: Queue) -> list[Entry]:
    return [entry for entry in iter(queue.get, None) if entry is not None]


@pytest.mark.parametrize("first", range(COUNT))
@pytest.mark.parametrize("purged", [False, True])
def test_what_is_acked_out_of_order_is_known_after_a_crash(tmp_path: Path, first: int, purged: bool) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True, arguments={"x-deduplication": True})
    queue.append(identified(COUNT))
    (before,) = taken(queue)
    queue.settle(before)
    stored.wait_until_safe()  # all so far is declared safe; what follows, only by and by
    for number in range(COUNT):
        queue.append(identified(number))
    stored.wait_until_safe()
    entries = taken(queue)
    queue.settle(entries.pop(first))
    stored.wait_until_safe()
    if purged:
        queue.requeue(entries)
        queue.purge()
    else:
        for entry in entries:
            queue.settle(entry)
    stored.wait_until_safe()
    with stored.restarted(cleanly=False) as stored:
        queue = stored.vhost.queues["q"]
        for number in range(COUNT):
            queue.append(identified(number))
        assert [entry.message.body for entry in taken(queue)] == []


def numbered(number: int, part: int = 0, name: str = "batch") -> Message:
    headers = {"x-deduplication-id": f"series:{name}/{part}/{number}"}
    properties = Properties(headers=headers, delivery_mode=2)
    return message(b"%d" % number, persistent=True, properties=properties.encode())


def test_a_series_longer_than_the_count_is_known_as_a_whole(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    arguments = {"x-deduplication": True, "x-deduplication-count": 10}
    queue = new_queue(stored.vhost, durable=True, arguments=arguments)
    for _ in range(2):
        for number in range(3000):
            queue.append(numbered(number))
    assert queue.ready_count == 3000
    stored.wait_until_safe()
    for entry in taken(queue):
        queue.settle(entry)
    stored.wait_until_safe()
    with stored.restarted(cleanly=False) as stored:
        queue = stored.vhost.queues["q"]
        for number in range(3001):
            queue.append(numbered(number))
        assert [entry.message.body for entry in taken(queue)] == [b"3000"]


def test_a_series_that_cannot_be_remembered_is_refused(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    arguments = {"x-deduplication": True, "x-deduplication-count": 3}
    queue = new_queue(stored.vhost, durable=True, arguments=arguments)
    queue.append(numbered(0, name="before"))
    for part in range(3):
        assert queue.append(numbered(0, part)) == ACCEPTED
    assert queue.append(numbered(0, 3)) == REFUSED, "a fourth part would make it forget the first"
    assert queue.append(numbered(5, 1)) == REFUSED, "and so would a hole"
    assert queue.append(numbered(1, 1)) == ACCEPTED
    assert queue.append(numbered(0, 0)) == ACCEPTED
    assert queue.ready_count == 5, "the repeated one is dropped"
    queue.append(numbered(0, name="before"))
    assert queue.ready_count == 6, "the one before was forgotten"
    stored.stop()


def test_a_series_is_as_young_as_its_last_message() -> None:
    clocks = TwoClocks()
    arguments = {"x-deduplication": True, "x-deduplication-window": 1000}
    queue = new_queue(clocks.vhost, arguments=arguments)

    def pass_time(seconds: float) -> None:
        clocks.step(seconds)
        clocks.loop.turn.refresh()

    for number in range(10):  # takes much longer than the window
        queue.append(numbered(number, number % 2))
        pass_time(0.9)
    for number in range(10):
        queue.append(numbered(number, number % 2))
    assert queue.ready_count == 10
    pass_time(1.1)
    queue.append(numbered(0))
    assert queue.ready_count == 11, "now it is forgotten"
