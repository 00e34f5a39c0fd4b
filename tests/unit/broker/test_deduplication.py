"""Identities over restarts: a message that was here is known, however its acks came to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.level import Entry
from embermq.broker.message import Message
from embermq.broker.queue import Queue
from embermq.wire.properties import Properties
from tests.unit.broker.stored import StoredBroker
from tests.unit.broker.world import message, new_queue

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
