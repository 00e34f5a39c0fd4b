"""Damage is found in what a deep queue has on disk: what is counted follows what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.broker.queue.level import Level
from embermq.broker.queue.queue import Queue
from tests.support.domain import constant, message, new_queue
from tests.support.stored_domain import StoredBroker

WINDOW_COUNT = constant("embermq.broker.queue.level", "WINDOW_COUNT")
COUNT = WINDOW_COUNT + 9000
BODY = b"<%05d>"
LOST_FIRST = WINDOW_COUNT + 5000


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredBroker]:
    with StoredBroker(tmp_path / "data") as broker:
        yield broker


def fill(stored: StoredBroker, queue: Queue, priority: int = 0, count: int = COUNT) -> None:
    for number in range(count):
        queue.append(message(BODY % number, persistent=number % 2 == 0, priority=priority))
        if number % 5000 == 0:
            stored.loop.run()
    stored.loop.run()


def damage(level: Level, number: int = LOST_FIRST) -> None:
    """Spoil the record of a message, found by its body."""
    assert level.log is not None
    for segment in level.log.segments:
        path = Path(level.log.directory, segment.name)
        data = path.read_bytes()
        at = data.find(BODY % number)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(b"?" * len(BODY % 0))
            return
    raise AssertionError("it is not on disk")


def take(queue: Queue, count: int) -> list[int]:
    taken = []
    for _ in range(count):
        entry = queue.get(no_ack=True)
        assert entry is not None
        taken.append(int(entry.message.body[1:-1]))
    return taken


def test_what_the_disk_has_lost_is_not_counted_any_more(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    fill(stored, queue)
    damage(queue.low)
    take(queue, COUNT - 3000)  # past the damage, and far from the end
    assert queue.ready_count == 2999
    assert queue.ready_bytes == 2999 * len(BODY % 0)
    # It goes on, and stays right: the queue need not be empty for that.
    fill(stored, queue, count=10)
    assert take(queue, 3009) == [*range(COUNT - 2999, COUNT), *range(10)]
    assert queue.get(no_ack=True) is None
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_damage_in_one_level_leaves_the_bytes_of_the_others(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    fill(stored, queue, priority=9)
    fill(stored, queue)
    damage(queue.high)
    assert len(take(queue, COUNT - 1)) == COUNT - 1
    for _ in queue.measure_pieces():
        pass
    assert (queue.ready_count, queue.ready_bytes) == (COUNT, COUNT * len(BODY % 0))
    assert take(queue, COUNT) == list(range(COUNT))
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_who_only_looks_finds_it_too(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    fill(stored, queue)
    damage(queue.low)
    damage(queue.low, LOST_FIRST + 2)
    assert sum(1 for _ in queue.messages()) == COUNT - 2
    assert queue.ready_count == COUNT - 2
    for _ in queue.measure_pieces():
        pass
    assert queue.ready_bytes == (COUNT - 2) * len(BODY % 0)
    assert len(take(queue, COUNT - 2)) == COUNT - 2
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_who_measures_finds_it_and_measures_all_that_is_left(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    fill(stored, new_queue(stored.vhost, durable=True))
    stored = stored.restarted()
    queue = stored.vhost.queue("q")
    left = queue.ready_count
    damage(queue.low)
    for _ in queue.measure_pieces():
        pass
    assert (queue.ready_count, queue.ready_bytes) == (left - 1, (left - 1) * len(BODY % 0))
    stored.stop()


def test_a_limit_does_not_count_what_is_lost(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True, arguments={"x-max-length": COUNT})
    fill(stored, queue)
    damage(queue.low)
    take(queue, COUNT - 3000)
    fill(stored, queue, count=COUNT - 2999)
    assert queue.ready_count == COUNT
    assert take(queue, 1) == [COUNT - 2999], "nothing had to go"
