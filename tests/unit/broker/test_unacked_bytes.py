"""The bytes that are out with consumers, whatever becomes of the messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.lease.lease import Lease
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.requeue import give_back
from tests.support.domain import Loop, constant, message, new_queue, new_vhost
from tests.support.stored_domain import StoredBroker

WINDOW_COUNT = constant("embermq.broker.queue.level", "WINDOW_COUNT")


def taken(queue: Queue, count: int) -> list[Entry]:
    entries = [queue.get() for _ in range(count)]
    return [entry for entry in entries if entry is not None]


def counts(queue: Queue) -> tuple[int, int, int, int]:
    """How many are ready, how many bytes these have; the same of those that are out."""
    return queue.ready_count, queue.body_bytes(), queue.unacked_count, queue.unacked_bytes


def fill(queue: Queue, *sizes: int, persistent: bool = False) -> None:
    for size in sizes:
        queue.append(message(b"x" * size, persistent=persistent))


@pytest.fixture
def queue() -> Queue:
    return new_queue(new_vhost(Loop()))


def test_out_and_settled(queue: Queue) -> None:
    fill(queue, 10, 200, 3000)
    first, second = taken(queue, 2)
    assert counts(queue) == (1, 3000, 2, 210)
    queue.settle(second)
    assert counts(queue) == (1, 3000, 1, 10)
    queue.purge()
    assert counts(queue) == (0, 0, 1, 10)
    queue.requeue([first])
    assert counts(queue) == (1, 10, 0, 0)
    assert queue.get(no_ack=True) is not None
    assert counts(queue) == (0, 0, 0, 0)


def test_headers_that_a_message_gets_on_its_way_do_not_count(queue: Queue) -> None:
    counting = new_queue(queue.vhost, "counting", durable=True, arguments={"x-queue-type": "quorum"})
    fill(counting, 10)
    for _ in range(3):
        counting.requeue(taken(counting, 1))
        assert counts(counting) == (1, 10, 0, 0)
    [entry] = taken(counting, 1)
    assert entry.returns == 3 and counts(counting) == (0, 0, 1, 10)
    counting.settle(entry)
    assert counts(counting) == (0, 0, 0, 0)


def test_rejected_for_good(queue: Queue) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    letting_go = new_queue(queue.vhost, "letting go", arguments=arguments)
    for source in (queue, letting_go):
        fill(source, 10, 200)
        entries = taken(source, 2)
        source.discard(entries)
        assert counts(source)[2:] == (0, 0)
    assert counts(queue) == (2, 210, 0, 0), "the dead letters"


def test_given_back_too_often(queue: Queue) -> None:
    limited = new_queue(queue.vhost, "limited", durable=True, arguments={"x-delivery-limit": 1})
    fill(limited, 10, 200)
    limited.requeue(taken(limited, 1))
    limited.requeue(taken(limited, 2))  # the first of them for the second time
    assert counts(limited) == (1, 200, 0, 0)


def test_given_back_to_try_later(queue: Queue) -> None:
    trying = new_queue(queue.vhost, "trying", durable=True, arguments={"x-retry-delay": 60_000})
    fill(trying, 10, 200)
    trying.requeue(taken(trying, 2))
    assert counts(trying) == (0, 0, 0, 0) and queue.vhost.delays.count == 2


@pytest.mark.parametrize("arguments", [{}, {"x-delivery-limit": 0}])
def test_given_back_in_pieces(queue: Queue, arguments: dict[str, object]) -> None:
    many = new_queue(queue.vhost, "many", durable=True, arguments=arguments)
    fill(many, *range(1000))
    entries = taken(many, 1000)
    for _ in give_back([entries[:600], entries[600:]], lambda piece: None):
        assert many.unacked_bytes <= sum(range(1000))
    left = 0 if arguments else sum(range(1000))
    assert counts(many) == (0 if arguments else 1000, left, 0, 0)


def test_given_back_to_a_queue_that_is_gone(queue: Queue) -> None:
    fill(queue, 10, 200)
    entries = taken(queue, 2)
    queue.vhost.delete_queue(queue)
    queue.requeue(entries)
    assert counts(queue) == (0, 0, 0, 0)


def test_a_deep_queue(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        queue = new_queue(stored.vhost)
        fill(queue, *([7] * (WINDOW_COUNT + 100)))
        entries = taken(queue, WINDOW_COUNT + 50)
        assert counts(queue) == (50, 350, WINDOW_COUNT + 50, 7 * (WINDOW_COUNT + 50))
        for entry in entries[10:]:
            queue.settle(entry)
        queue.requeue(entries[:10])
        assert counts(queue) == (60, 420, 0, 0)


@pytest.mark.parametrize("cleanly", [True, False])
def test_what_was_out_is_ready_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    fill(queue, 100, 100, persistent=True)
    taken(queue, 1)
    with stored.restarted(cleanly) as stored:
        queue = stored.vhost.queue("q")
        list(queue.measure_pieces())
        assert counts(queue) == (2, 200, 0, 0)


# -- leases, of which a restart knows no messages but only where they are


def leased(stored: StoredBroker, count: int) -> Lease:
    lease = stored.vhost.leases.begin(stored.vhost.queue("q"), "batch", 0)
    lease.take(count, 1 << 30)
    stored.vhost.leases.keep(lease)
    return lease


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("end", ["settle", "release"])
def test_a_lease_ends(tmp_path: Path, persistent: bool, end: str) -> None:
    with StoredBroker(tmp_path) as stored:
        queue = new_queue(stored.vhost, durable=True)
        fill(queue, 10, 200, 3000, persistent=persistent)
        lease = leased(stored, 2)
        assert counts(queue) == (1, 3000, 2, 210)
        getattr(stored.vhost.leases, end)(lease)
        stored.wait_until_safe()
        assert counts(queue) == ((1, 3000, 0, 0) if end == "settle" else (3, 3210, 0, 0))


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("end", ["settle", "release"])
def test_a_lease_ends_after_a_restart(tmp_path: Path, measured: bool, end: str) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    fill(queue, 10, persistent=False)
    fill(queue, 200, 3000, 40_000, persistent=True)
    leased(stored, 3)
    with stored.restarted() as stored:
        queue = stored.vhost.queue("q")
        if measured:
            list(queue.measure_pieces())
            assert counts(queue) == (1, 40_000, 2, 3200)
        assert queue.unacked_bytes == 3200, "the one that was not on disk is gone"
        getattr(stored.vhost.leases, end)(stored.vhost.leases.find(queue, "batch"))
        stored.wait_until_safe()
        list(queue.measure_pieces())
        assert counts(queue) == ((1, 40_000, 0, 0) if end == "settle" else (3, 43_200, 0, 0))
        while (entry := queue.get()) is not None:
            queue.settle(entry)
        assert counts(queue) == (0, 0, 0, 0)
