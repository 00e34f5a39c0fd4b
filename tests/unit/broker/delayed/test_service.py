"""What waits in a virtual host: handed on, taken back, remembered."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from embermq.broker.delayed import schedule
from embermq.broker.delayed.service import KIND
from embermq.broker.queue.queue import Queue
from embermq.store import data_directory
from embermq.store.disk.disk import Disk
from tests.support.domain import Taker, message, new_queue
from tests.support.stored_domain import StoredBroker

FAR_MS = 10**13


@pytest.fixture(autouse=True)
def _small_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "HEAD_COUNT_MAX", 4)


def delay(stored: StoredBroker, queue: Queue, body: bytes, due_ms: int) -> None:
    stored.vhost.delays.publish(message(body, key=queue.name, persistent=True), due_ms)


def bodies(queue: Queue) -> list[bytes]:
    return [waiting.body for waiting in queue.messages()]


def notes(stored: StoredBroker) -> list[str]:
    return [definition.name for definition in stored.definitions.stored.all(KIND)]


def test_what_is_taken_back_stays_so_over_restarts_until_all_is_gone(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    one, two = (new_queue(stored.vhost, name, durable=True) for name in ("one", "two"))
    for number in range(10):
        delay(stored, one, b"taken back %d" % number, FAR_MS + number)
        delay(stored, two, b"kept", FAR_MS + number)
    assert stored.vhost.purge_queue(one) == 0
    delay(stored, one, b"after", FAR_MS)
    assert stored.vhost.delays.counts == {"q:two": 10, "q:one": 1}
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    assert stored.vhost.delays.counts == {"q:two": 10, "q:one": 1}
    assert notes(stored) == ["q:one"]
    stored.vhost.delays.on_due(FAR_MS + 100)
    stored.wait_until_safe()
    assert bodies(stored.vhost.queues["one"]) == [b"after"]
    assert bodies(stored.vhost.queues["two"]) == [b"kept"] * 10
    assert (stored.vhost.delays.count, stored.vhost.delays.taken_back) == (0, {})
    stored = stored.restarted()
    assert notes(stored) == []
    stored.stop()


def test_taking_back_everything_frees_the_disk_at_once(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, "one", durable=True)
    for number in range(10):
        delay(stored, queue, b"x", FAR_MS - number)
    stored.loop.run()  # runs are written, and the head is told so only below
    stored.vhost.delete_queue(queue)
    assert stored.vhost.delays.schedule.log_ids() == []
    queue = new_queue(stored.vhost, "one", durable=True)
    delay(stored, queue, b"new", FAR_MS)
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    stored.vhost.delays.on_due(FAR_MS + 1)
    assert bodies(stored.vhost.queues["one"]) == [b"new"]
    stored.stop()


def test_taking_back_the_rest_keeps_what_is_on_its_way(tmp_path: Path) -> None:
    """A message was due just now and is not on disk in its queue: its place in the schedule must stay."""
    stored = StoredBroker(tmp_path / "data")
    one, two = (new_queue(stored.vhost, name, durable=True) for name in ("one", "two"))
    delay(stored, one, b"due", FAR_MS)
    delay(stored, two, b"taken back", FAR_MS + 1)
    stored.wait_until_safe()
    stored.vhost.delays.on_due(FAR_MS)
    stored.vhost.purge_queue(two)
    stored.data.disk.wait_deleted()
    shutil.copytree(stored.data.layout.queues, tmp_path / "killed" / "queues")
    stored.wait_until_safe()
    stored.data.disk.wait_deleted()
    assert bodies(one) == [b"due"]
    assert stored.vhost.delays.schedule.log_ids() == []
    stored.stop()
    # What a kill would have left: the queues of that moment, the definitions, which are the same.
    for name in ("VERSION", "definitions.sqlite"):
        shutil.copy(tmp_path / "data" / name, tmp_path / "killed" / name)
    killed = StoredBroker(tmp_path / "killed")
    killed.vhost.delays.on_due(FAR_MS + 1)
    assert bodies(killed.vhost.queues["one"]) == [b"due"]
    assert bodies(killed.vhost.queues["two"]) == []
    killed.stop()


class KeepingDisk(Disk):
    """A crash comes before what is to be deleted is deleted."""

    keeps = False

    def drop_directory(self, path: str) -> None:
        if not self.keeps:
            super().drop_directory(path)


@pytest.mark.parametrize("back_after_a_crash", [False, True])
def test_a_virtual_host_made_anew_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back_after_a_crash: bool
) -> None:
    monkeypatch.setattr(data_directory, "Disk", KeepingDisk)
    monkeypatch.setattr(KeepingDisk, "keeps", False)
    stored = StoredBroker(tmp_path)
    for body in (b"old", b"new"):
        if body == b"new":
            if back_after_a_crash:
                KeepingDisk.keeps = True
            stored.broker.delete_vhost(stored.vhost)
            stored.broker.add_vhost("/")
        queue = new_queue(stored.vhost, "one", durable=True)
        for number in range(6):
            delay(stored, queue, body, FAR_MS - number)
        stored.loop.run()
    stored.data.disk.wait_deleted()
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    assert stored.vhost.delays.counts == {"q:one": 6}
    stored.vhost.delays.on_due(FAR_MS + 1)
    assert bodies(stored.vhost.queues["one"]) == [b"new"] * 6
    stored.stop()


def test_a_fault_holds_up_nobody_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored = StoredBroker(tmp_path)
    one, two = (new_queue(stored.vhost, name, durable=True) for name in ("one", "two"))
    delay(stored, one, b"first", FAR_MS)
    delay(stored, two, b"second", FAR_MS)
    delays = stored.vhost.delays
    hand_on = delays.hand_on
    monkeypatch.setattr(delays, "hand_on", lambda it: hand_on(it) if it.destination == "q:two" else 1 / 0)
    with caplog.at_level(logging.ERROR):
        delays.on_due(FAR_MS)
    assert "a fault of ours, handing on a delayed message to q:one" in caplog.text
    assert (bodies(one), bodies(two)) == ([], [b"second"])
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    stored.vhost.delays.on_due(FAR_MS)
    assert bodies(stored.vhost.queues["one"]) == [b"first"]
    assert bodies(stored.vhost.queues["two"]) == [b"second"]
    stored.stop()


@pytest.mark.parametrize("returns", [1, 127, 128, 5000])
def test_counts_of_messages_that_come_back_survive_however_large(tmp_path: Path, returns: int) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(
        stored.vhost, "one", durable=True, arguments={"x-retry-delay": 10, "x-delivery-limit": -1}
    )
    queue.append(message(b"again", persistent=True))
    taker = Taker(queue)
    queue.add_consumer(taker)
    stored.loop.run()
    (entry,) = taker.got
    entry.returns = returns - 1
    queue.remove_consumer(taker)
    queue.requeue([entry])
    assert stored.vhost.delays.counts == {"r:one": 1}
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    assert queue.ready_count == 0
    stored.vhost.delays.on_due(FAR_MS)
    stored.wait_until_safe()
    stored = stored.restarted(cleanly=False)
    got = stored.vhost.queues["one"].get()
    assert got is not None
    assert (got.returns, bool(got.redelivered)) == (returns, True)
    assert (got.message.properties.headers or {})["x-delivery-count"] == returns
    stored.stop()
