"""What waits on disk is measured for a limit in bytes, piece by piece, whatever happens in between."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from embermq.broker.queue import level
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker

COUNT = 500


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredBroker:
    """A queue with 500 messages of which nobody has read one since the start: 0 to 499 bytes long."""
    monkeypatch.setattr(level, "MEASURED_BYTES", 4096)
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    for number in range(COUNT):
        queue.append(message(b"x" * number, persistent=True, priority=9 * (number % 2)))
    stored = stored.restarted()
    assert stored.vhost.queue("q").ready_bytes == 0 and stored.vhost.queue("q").is_unmeasured()
    return stored


def test_all_are_measured(stored: StoredBroker) -> None:
    with stored:
        queue = stored.vhost.queue("q")
        assert sum(1 for _ in queue.measure_pieces()) > 10
        assert queue.ready_bytes == sum(range(COUNT)) and not queue.is_unmeasured()


def test_who_looks_is_told_about_how_much_and_the_next_time_exactly(stored: StoredBroker) -> None:
    with stored:
        queue, exactly = stored.vhost.queue("q"), sum(range(COUNT))
        assert queue.ready_bytes == 0 and abs(queue.body_bytes() - exactly) < exactly / 10
        queue.append(message(b"y" * 1000, persistent=True))
        assert abs(queue.body_bytes() - exactly - 1000) < exactly / 10
        queue.measure_soon()
        queue.measure_soon()
        assert len(queue.turn.incremental_work.works) == 1
        while queue.turn.incremental_work.works:
            stored.loop.run()
        assert queue.body_bytes() == queue.ready_bytes == exactly + 1000
        queue.measure_soon()
        assert len(queue.turn.incremental_work.works) == 0


def test_large_messages_are_measured_without_reading_them(tmp_path: Path) -> None:
    """Others would wait for that: a third of a second for a few messages of 100 MB."""
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    sizes = (5_000_000, 10, 5_000_000, 0)
    for size in sizes:
        queue.append(message(bytes(size), persistent=True))
    with stored.restarted() as stored:
        queue = stored.vhost.queue("q")
        tracemalloc.start()
        list(queue.measure_pieces())
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert queue.ready_bytes == sum(sizes) and not queue.is_unmeasured()
        assert peak_bytes < 2_000_000


def test_small_messages_are_not_told_to_be_less_than_nothing(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    new_queue(stored.vhost, durable=True).append(message(b"", persistent=True))
    with stored.restarted() as stored:
        assert stored.vhost.queue("q").body_bytes() in range(10)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_and_goes_between_two_pieces(stored: StoredBroker, seed: int) -> None:
    chance = random.Random(seed)
    with stored:
        queue = stored.vhost.queue("q")
        for _ in queue.measure_pieces():
            for _ in range(chance.randrange(8)):
                if chance.random() < 0.3:
                    queue.append(message(b"y" * chance.randrange(200), persistent=True))
                elif (entry := queue.get()) is not None and chance.random() < 0.5:
                    queue.requeue([entry])
        assert queue.ready_bytes == sum(len(found.body) for found in queue.messages())


def test_a_purge_in_the_middle(stored: StoredBroker) -> None:
    with stored:
        queue = stored.vhost.queue("q")
        pieces = queue.measure_pieces()
        next(pieces)
        queue.purge()
        queue.append(message(b"new", persistent=True))
        assert list(pieces) == [] and queue.ready_bytes == 3


def test_a_deletion_in_the_middle(stored: StoredBroker) -> None:
    with stored:
        queue = stored.vhost.queue("q")
        pieces = queue.measure_pieces()
        next(pieces)
        stored.vhost.delete_queue(queue)
        assert list(pieces) == [] and queue.ready_bytes == 0


def test_a_limit_drops_what_is_too_much_once_that_is_known(stored: StoredBroker) -> None:
    with stored:
        queue = stored.vhost.queue("q")
        queue.effective_changed({"x-max-length-bytes": 10_000})
        assert 9_000 < queue.ready_bytes <= 10_000
        assert queue.ready_bytes == sum(len(found.body) for found in queue.messages())
