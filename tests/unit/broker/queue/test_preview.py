"""The first messages of a queue as people look at them: in order, from memory and disk, large ones cut."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from embermq.broker.queue.browse import ready_from
from embermq.broker.queue.preview import BLOCK_BYTES, Preview, previews
from embermq.broker.queue.queue import Queue
from embermq.store.log.record import RECORD_HEADER_SIZE
from embermq.wire.properties import Properties
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker

BODY_BYTES = 1000


def seen_in(queue: Queue, count: int = 10) -> list[Preview]:
    found = [seen for seen in previews(queue, count, BODY_BYTES) if seen is not None]
    return found[:count]


def check(queue: Queue, count: int = 10) -> None:
    """The same as somebody sees who reads all of them whole."""
    whole = [seen for seen, _ in zip(ready_from(queue), range(count), strict=False)]
    cut = seen_in(queue, count)
    assert [seen.sequence for seen in cut] == [seen.sequence for seen in whole]
    for seen, all_of_it in zip(cut, whole, strict=True):
        message = all_of_it.message
        assert seen.message.names == message.names and seen.body_size == len(message.body)
        assert seen.message.body[:BODY_BYTES] == message.body[:BODY_BYTES]
        assert len(seen.message.content) <= message.header_size + BLOCK_BYTES
        assert seen.message.properties.expiration == message.properties.expiration
        assert (seen.redelivered, seen.expires_ms) == (all_of_it.redelivered, all_of_it.expires_ms)
        assert seen.in_memory is (all_of_it.entry is not None)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_seen_is_what_is_there(tmp_path: Path, seed: int) -> None:
    """Sizes around that of a block; written, unwritten, some of both; some settled, some in a lease."""
    chance = random.Random(seed)
    sizes = (0, 10, 999, BLOCK_BYTES - RECORD_HEADER_SIZE - 24, BLOCK_BYTES, 3 * BLOCK_BYTES, 700_000)
    properties = Properties(headers={"a": "b"}, expiration="100000").encode()
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)

    def publish(count: int) -> None:
        for _ in range(count):
            body = chance.randbytes(max(chance.choice(sizes) + chance.randint(-40, 40), 0))
            priority = chance.choice((0, 9))
            queue.append(message(body, persistent=True, priority=priority, properties=properties))

    publish(30)
    stored = stored.restarted(cleanly=chance.random() < 0.5)
    with stored:
        queue = stored.vhost.queue("q")
        check(queue)
        publish(chance.randint(0, 5))
        check(queue, 40)
        stored.loop.run()
        publish(chance.randint(0, 5))
        check(queue, 40)
        taken = [queue.get() for _ in range(12)]
        check(queue)
        for entry in taken[3:]:
            assert entry is not None
            queue.settle(entry)
        queue.requeue([entry for entry in taken[:3] if entry is not None])
        check(queue)
        lease = stored.vhost.leases.begin(queue, "batch", 0)
        lease.take(5, 1 << 30)
        stored.vhost.leases.keep(lease)
        check(queue, 40)


def test_a_header_longer_than_a_block(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    long = Properties(headers={f"h{number}": "v" * 100 for number in range(1000)}, expiration="9000").encode()
    queue.append(message(b"body", persistent=True, properties=long, key="long"))
    queue.append(message(b"short", persistent=True, key="short"))
    with stored.restarted() as stored:
        first, second = seen_in(stored.vhost.queue("q"))
        assert (first.message.routing_key, first.body_size) == ("long", 4)
        assert first.message.header_size > len(first.message.content)
        assert second.message.body == b"short"


def test_what_goes_while_somebody_looks(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    for number in range(50):
        queue.append(message(b"%d" % number + bytes(BLOCK_BYTES), persistent=True))
    with stored.restarted() as stored:
        queue = stored.vhost.queue("q")
        looking = previews(queue, 10, BODY_BYTES)
        assert isinstance(next(looking), Preview)
        queue.purge()
        stored.wait_until_safe()
        assert len(list(looking)) < 50
        looking = previews(queue, 10, BODY_BYTES)
        queue.append(message(b"x" * BLOCK_BYTES, persistent=True))
        next(looking)
        stored.vhost.delete_queue(queue)
        assert list(looking) in ([], [None])


def test_a_stream_from_its_first_offset(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        stream = new_queue(stored.vhost, durable=True, arguments={"x-queue-type": "stream"})
        for number in range(20):
            stream.append(message(b"%d" % number + bytes(BLOCK_BYTES * (number % 2))))
        check(stream)
        stored.wait_until_safe()
        check(stream)
        assert [seen.sequence for seen in seen_in(stream)] == list(range(10))
