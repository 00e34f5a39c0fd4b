"""A queue deeper than its window: order, counts and records stay right while messages live on disk only."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import embermq.broker.queue.level as level_module
from embermq.broker import turn as turn_module
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.timers import Timers
from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem
from tests.support.domain import Taker, constant, message, new_queue
from tests.support.settling_rules import SettlingRules
from tests.support.stored_domain import StoredBroker

WINDOW_COUNT = constant("embermq.broker.queue.level", "WINDOW_COUNT")
TIGHT_COUNT = constant("embermq.broker.queue.level", "TIGHT_COUNT")
TIGHT_BYTES = constant("embermq.broker.queue.level", "TIGHT_BYTES")
WINDOW_BYTES = constant("embermq.broker.queue.level", "WINDOW_BYTES")
COMPILED = not level_module.__file__.endswith(".py")


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredBroker]:
    with StoredBroker(tmp_path / "data") as broker:
        yield broker


class CountedOpens(FileSystem):
    opens = 0

    def open(self, path: str, create: bool = False, writable: bool = True) -> File:
        self.opens += path.endswith(".segment")
        return super().open(path, create, writable)


class Timer:
    def __init__(self, timers: list[Callable[[], None]], call: Callable[[], None]) -> None:
        timers.append(call)
        self.cancel = partial(timers.remove, call)


def drained(stored: StoredBroker, queue: Queue) -> list[bytes]:
    """Everything that is ready, taken by a consumer that needs no acknowledgement."""
    taker = Taker(queue, no_ack=True)
    queue.add_consumer(taker)
    stored.loop.run()
    queue.remove_consumer(taker)
    return taker.bodies


@pytest.mark.parametrize("size", [1, 10_000])
def test_while_memory_is_tight_less_is_kept_there(stored: StoredBroker, size: int) -> None:
    queue = new_queue(stored.vhost, durable=True)
    stored.loop.turn.tight = True
    count = TIGHT_COUNT + 500
    for number in range(count):
        queue.append(message(b"%d " % number + b"x" * size, persistent=number % 2 == 0))
    kept = min(TIGHT_COUNT, TIGHT_BYTES // size + 1)
    assert kept - 2 <= len(queue.low.ring) <= kept
    assert queue.low.paged_count == count - len(queue.low.ring)
    stored.loop.turn.tight = False
    bodies = drained(stored, queue)
    assert [int(body.split()[0]) for body in bodies] == list(range(count))
    # It is over: the window is as large as before.
    for _ in range(count):
        queue.append(message(b"x"))
    assert (len(queue.low.ring), queue.low.paged_count) == (count, 0)


@pytest.mark.parametrize("durable", [False, True])
def test_a_deep_queue_keeps_its_order_and_little_in_memory(stored: StoredBroker, durable: bool) -> None:
    count = WINDOW_COUNT + 9000
    queue = new_queue(stored.vhost, durable=durable)
    for number in range(count):
        queue.append(message(b"%d" % number, persistent=number % 3 == 0))
        if number % 5000 == 0:
            stored.loop.run()
    assert len(queue.low.ring) == WINDOW_COUNT and queue.low.paged_count == 9000
    assert queue.ready_count == count
    assert sum(1 for _ in queue.messages()) == count
    out = [queue.get() for _ in range(100)]
    queue.requeue([entry for entry in out if entry is not None])
    assert drained(stored, queue) == [b"%d" % number for number in range(count)]
    assert (queue.ready_count, queue.ready_bytes, queue.low.paged_count) == (0, 0, 0)
    queue.append(message(b"afterwards"))
    assert len(queue.low.ring) == 1, "an empty queue no longer pages"


def test_large_messages_fill_the_window_by_their_size(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost)
    body = bytes(1024 * 1024)
    for number in range(WINDOW_BYTES // len(body) + 6):
        queue.append(message(b"%04d" % number + body, priority=9 * (number % 2)))
        stored.loop.run()
    assert queue.low.ring_bytes + queue.high.ring_bytes < 2 * (WINDOW_BYTES + 2 * len(body))
    while queue.low.paged_count == 0:
        queue.append(message(b"more" + body))
    stored.loop.run()
    ready = queue.ready_count
    bodies = [data[:4] for data in drained(stored, queue)]
    assert len(bodies) == ready
    high = [data for data in bodies if data != b"more" and int(data) % 2]
    assert bodies[: len(high)] == sorted(high), "the higher level first, each in order"


def test_reading_back_does_not_outgrow_the_window(stored: StoredBroker) -> None:
    """Several messages are read for each one that leaves."""
    queue, count = new_queue(stored.vhost), 300
    body = bytes(200_000)
    for number in range(count):
        queue.append(message(b"%04d" % number + body))
        stored.loop.run()
    assert queue.low.paged_count
    most = 0
    for number in range(count):
        entry = queue.get()
        assert entry is not None and entry.message.body[:4] == b"%04d" % number
        queue.settle(entry)
        stored.loop.run()
        most = max(most, queue.low.ring_bytes)
    assert most < WINDOW_BYTES + 4 * len(body)
    assert queue.get() is None


def test_purging_a_deep_queue_leaves_what_is_out(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    for number in range(WINDOW_COUNT + 100):
        queue.append(message(b"%d" % number, persistent=True))
    out = [queue.get() for _ in range(3)]
    assert queue.purge() == WINDOW_COUNT + 97
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 3)
    queue.append(message(b"new", persistent=True))
    queue.requeue([entry for entry in out if entry is not None])
    assert drained(stored, queue) == [b"0", b"1", b"2", b"new"]


def test_what_cannot_be_read_now_is_read_later(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with too many open files: nothing is taken out of the queue that nobody gets."""
    monkeypatch.setattr(turn_module, "RETRY_MS", 0)
    timers: list[Callable[[], None]] = []
    turn = stored.loop.turn
    turn.timers = Timers(turn, lambda _, call: Timer(timers, call))
    queue = new_queue(stored.vhost, durable=True)
    count = WINDOW_COUNT + 9000
    for number in range(count):
        queue.append(message(b"%d" % number, persistent=True))
    stored.loop.run()
    log = queue.low.log
    assert log is not None
    for segment in log.segments:
        stored.data.disk.forget_file(f"{log.directory}/{segment.name}")
    Path(log.directory).rename(f"{log.directory}.away")
    counted = CountedOpens()
    log.disk = Disk(counted, stored.data.disk.trash)
    taker = Taker(queue, no_ack=True)
    queue.add_consumer(taker)
    stored.loop.run()
    assert len(taker.bodies) + queue.ready_count == count
    assert counted.opens == 4, "looked for and read: before the window was empty, and when it was"
    queue.append(message(b"%d" % count, persistent=True))
    stored.loop.run()
    assert len(timers) == 1 and caplog.text.count("cannot read from") == 1, "it is left alone for a while"
    timers[-1]()
    stored.loop.run()
    assert caplog.text.count("cannot read from") == 2
    Path(f"{log.directory}.away").rename(log.directory)
    timers[-1]()
    stored.loop.run()
    count += 1
    assert taker.bodies == [b"%d" % number for number in range(count)]


class PagedQueue(SettlingRules):
    """With a window of five messages paging happens all the time; nobody outside may notice."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="embermq-level-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(level_module, "WINDOW_COUNT", 5)
        self.patch.setattr(level_module, "REFILL_COUNT", 2)
        self.patch.setattr(level_module, "REFILL_BYTES", 150)
        self.stored = StoredBroker(self.directory / "data")
        new_queue(self.stored.vhost, durable=True)
        self.ready: list[int] = []
        self.persistent: set[int] = set()
        self.out: list[Entry] = []
        self.arrived = 0

    @property
    def queue(self) -> Queue:
        return self.stored.vhost.queues["q"]

    def teardown(self) -> None:
        self.patch.undo()
        self.stored.stop()
        shutil.rmtree(self.directory)

    @rule(persistent=st.lists(st.booleans(), min_size=1, max_size=12))
    def publish(self, persistent: list[bool]) -> None:
        for kept in persistent:
            self.arrived += 1
            self.queue.append(message(b"%d" % self.arrived, persistent=kept))
            self.ready.append(self.arrived)
            if kept:
                self.persistent.add(self.arrived)

    @rule(count=st.integers(1, 8))
    def get(self, count: int) -> None:
        for _ in range(count):
            entry = self.queue.get()
            assert (None if entry is None else int(entry.message.body)) == (
                self.ready.pop(0) if self.ready else None
            )
            if entry is not None:
                self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        entries = self.some_out(data)
        self.queue.requeue(entries)
        self.ready = sorted([*self.ready, *(int(entry.message.body) for entry in entries)])

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @rule()
    def turn(self) -> None:
        self.stored.loop.run()

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        """Persistent messages that were not settled are there again, in order."""
        unsettled = [*self.ready, *(int(entry.message.body) for entry in self.out)]
        self.stored = self.stored.restarted(cleanly)
        self.ready = sorted(number for number in unsettled if number in self.persistent)
        self.out = []

    @invariant()
    def as_the_model_says(self) -> None:
        assert self.queue.ready_count == len(self.ready)
        assert [int(found.body) for found in self.queue.messages()] == self.ready
        assert len(self.queue.low.ring) <= 5 + 12 + len(self.ready)


PagedQueue.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@pytest.mark.skipif(COMPILED, reason="compiled, the window is a number of C: the deep tests above go past it")
class TestPagedQueue(PagedQueue.TestCase):  # type: ignore[name-defined,misc]
    pass
