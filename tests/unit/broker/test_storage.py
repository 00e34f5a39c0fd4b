"""Many logs with something new are written over several turns; what is safe is told in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.broker import storage as storage_module
from embermq.broker.queue.queue import Queue
from embermq.store.disk.disk import ROOM_BYTES
from embermq.store.log.preallocation import WRITES_BEFORE_ROOM
from tests.support.domain import message
from tests.support.stored_domain import StoredBroker


@pytest.fixture(autouse=True)
def one_log_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "STEP_S", 0.0)
    monkeypatch.setattr(storage_module, "STEP_S_MAX", 0.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StoredBroker]:
    with StoredBroker(tmp_path / "data") as stored:
        yield stored


def declared(world: StoredBroker, *names: str) -> list[Queue]:
    return [
        world.vhost.declare_queue(
            name, owner=None, durable=True, exclusive=False, auto_delete=False, arguments={}
        )
        for name in names
    ]


def one_turn(world: StoredBroker) -> None:
    scheduled, world.loop.scheduled[:] = list(world.loop.scheduled), []
    for action in scheduled:
        action()


def on_disk(world: StoredBroker, queues: list[Queue]) -> list[bool]:
    return [world.storage.has_log(queue.low.log_id) for queue in queues]


def take_calls(world: StoredBroker) -> None:
    while not world.calls.empty():
        call, arguments = world.calls.get()
        call(*arguments)


def test_a_turn_leaves_logs_to_the_next_ones_in_their_order(world: StoredBroker) -> None:
    queues = declared(world, "a", "b", "c")
    world.wait_until_safe()
    for queue in queues:
        queue.append(message(b"first", persistent=True))
    one_turn(world)
    assert on_disk(world, queues) == [True, False, False]
    one_turn(world)
    assert on_disk(world, queues) == [True, True, False]
    assert world.loop.run() == 1
    assert on_disk(world, queues) == [True, True, True]


def test_nobody_is_told_that_it_is_safe_before_the_last_log_is_written(world: StoredBroker) -> None:
    queues = declared(world, "a", "b", "c")
    world.wait_until_safe()
    told: list[str] = []
    for queue in queues:
        queue.append(message(b"first", persistent=True))
    one_turn(world)
    world.storage.when_safe(lambda: told.append("three"))
    one_turn(world)
    take_calls(world)
    assert told == []
    one_turn(world)
    take_calls(world)
    assert told == ["three"]


def test_a_fault_in_writing_one_log_is_no_lie_about_the_others(
    world: StoredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    queues = declared(world, "a", "b")
    world.wait_until_safe()
    told: list[str] = []
    for queue in (queues[0], *queues):
        queue.append(message(b"first", persistent=True))
    log = queues[0].low.log
    assert log is not None and log.active is not None
    queues[0].get(no_ack=True)  # so that the buffer is gone through
    log.active.buffer[:] = b"\xff" * len(log.active.buffer)
    world.loop.turn.after_write(lambda: world.storage.when_safe(lambda: told.append("both")))
    world.loop.run()
    take_calls(world)
    assert on_disk(world, queues) == [False, True]
    assert told == []
    assert [type(failure) for failure in world.failures] == [IndexError], "the broker must stop"
    assert "a fault of ours" in caplog.text


def test_who_asked_first_does_not_wait_for_what_came_later(world: StoredBroker) -> None:
    queues = declared(world, "a", "b", "c", "d")
    world.wait_until_safe()
    told: list[str] = []
    queues[0].append(message(b"first", persistent=True))
    queues[1].append(message(b"first", persistent=True))
    one_turn(world)
    world.storage.when_safe(lambda: told.append("two"))
    queues[2].append(message(b"first", persistent=True))
    queues[3].append(message(b"first", persistent=True))
    one_turn(world)
    world.storage.when_safe(lambda: told.append("four"))
    take_calls(world)
    assert told == ["two"]
    world.loop.run()
    take_calls(world)
    assert told == ["two", "four"]


def test_what_comes_while_a_log_waits_is_written_with_it(tmp_path: Path) -> None:
    world = StoredBroker(tmp_path / "data")
    first, second = declared(world, "a", "b")
    world.wait_until_safe()
    first.append(message(b"1", persistent=True))
    second.append(message(b"2", persistent=True))
    one_turn(world)
    second.append(message(b"3", persistent=True))
    world.loop.run()
    with world.restarted(cleanly=False) as again:
        bodies = [bytes(each.content[each.header_size :]) for each in again.vhost.queues["b"].messages()]
        assert bodies == [b"2", b"3"]


def test_a_queue_that_is_deleted_meanwhile_leaves_nothing(world: StoredBroker) -> None:
    queues = declared(world, "a", "b", "c")
    world.wait_until_safe()
    told: list[bool] = []
    for queue in queues:
        queue.append(message(b"first", persistent=True))
    one_turn(world)
    world.storage.when_safe(lambda: told.append(True))
    world.vhost.delete_queue(queues[1])
    world.loop.run()
    take_calls(world)
    world.wait_until_safe()
    assert told == [True]
    assert on_disk(world, queues) == [True, False, True]


def test_the_last_turns_write_everything(world: StoredBroker) -> None:
    queues = declared(world, "a", "b", "c")
    world.wait_until_safe()
    for queue in queues:
        queue.append(message(b"first", persistent=True))
    world.loop.turn.finish()
    assert on_disk(world, queues) == [True, True, True]


def test_an_ack_does_not_wait_for_new_logs(world: StoredBroker) -> None:
    """What follows it may be answered in this turn: a kill must not bring the message back after that."""
    old, second, third = declared(world, "old", "second", "third")
    old.append(message(b"done", persistent=True))
    old.append(message(b"stays", persistent=True))
    world.wait_until_safe()
    second.append(message(b"first", persistent=True))
    third.append(message(b"first", persistent=True))
    entry = old.get()
    assert entry is not None
    old.settle(entry)
    one_turn(world)
    assert on_disk(world, [second, third]) == [True, False]
    assert old.low.log is not None and old.low.log.ack_dirty == []


@pytest.mark.parametrize("end", ["two quiet ticks", "a clean stop"])
def test_files_end_with_their_records_when_all_is_quiet(world: StoredBroker, end: str) -> None:
    world.data.disk.room_bytes = ROOM_BYTES  # though nobody syncs here
    (queue,) = declared(world, "busy")
    for _ in range(WRITES_BEFORE_ROOM):
        queue.append(message(b"again", persistent=True))
        world.wait_until_safe()
    log = queue.low.log
    assert log is not None
    (path,) = Path(log.directory).glob("*.segment")
    assert path.stat().st_size > log.bytes_on_disk
    if end == "a clean stop":
        world.storage.close()
    else:
        world.storage.tidy()
        assert path.stat().st_size > log.bytes_on_disk, "it was written to since the last tick"
        world.storage.tidy()
    assert path.stat().st_size == log.bytes_on_disk


def test_many_logs_are_tidied_a_few_at_a_time(world: StoredBroker) -> None:
    world.data.disk.room_bytes = ROOM_BYTES
    queues = declared(world, *(f"busy-{number}" for number in range(11)))
    for _ in range(WRITES_BEFORE_ROOM):
        for queue in queues:
            queue.append(message(b"again", persistent=True))
        world.wait_until_safe()

    def tidy_count() -> int:
        logs = [queue.low.log for queue in queues if queue.low.log is not None]
        sizes = [(path, log) for log in logs for path in Path(log.directory).glob("*.segment")]
        return sum(path.stat().st_size == log.bytes_on_disk for path, log in sizes)

    assert world.storage.tidy() is False, "all were written to since the last tick"
    assert tidy_count() == 0
    found = []
    while True:
        more = world.storage.tidy()
        found.append(tidy_count())
        if not more:
            break
    assert found == [5, 10, 11]


def test_after_safe_covers_what_was_appended_before_it_and_nothing_later(world: StoredBroker) -> None:
    """An action of the turn comes when the logs are written: what it appends is for the next sync."""
    (queue,) = declared(world, "a")
    world.wait_until_safe()
    seen: list[str] = []
    turn = world.loop.turn

    def append_more() -> None:
        queue.append(message(b"second", persistent=True))
        turn.after_safe(lambda: seen.append(f"second, unwritten: {queue.low.dirty}"))

    queue.append(message(b"first", persistent=True))
    turn.after_write(append_more)
    turn.after_safe(lambda: seen.append("first"))
    turn.after_safe(lambda: seen.append("first, again"), with_acks=True)
    one_turn(world)
    assert seen == [], "written is not yet safe"
    while len(seen) < 2:
        call, arguments = world.calls.get(timeout=60)
        call(*arguments)
    assert seen == ["first", "first, again"] and queue.low.dirty
    world.wait_until_safe()
    assert seen[2:] == ["second, unwritten: False"]
