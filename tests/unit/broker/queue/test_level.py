"""A queue deeper than its window: order, counts and records stay right while messages live on disk only."""

from __future__ import annotations

import random
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import embermq.broker.queue.level as level_module
from embermq.broker import turn as turn_module
from embermq.broker.queue.level import RETURNS_IN_FLAGS_MAX as IN_FLAGS_MAX
from embermq.broker.queue.level import Entry, Level
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
UNMEASURED_COUNT = 500
DEEP_COUNT = WINDOW_COUNT + 9000
BODY = b"<%05d>"
LOST_FIRST = WINDOW_COUNT + 5000
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


# -- what waits on disk is measured for a limit in bytes, piece by piece, whatever happens in between


@pytest.fixture
def unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredBroker:
    """A queue with 500 messages of which nobody has read one since the start: 0 to 499 bytes long."""
    monkeypatch.setattr(level_module, "MEASURED_BYTES", 4096)
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    for number in range(UNMEASURED_COUNT):
        queue.append(message(b"x" * number, persistent=True, priority=9 * (number % 2)))
    stored = stored.restarted()
    assert stored.vhost.queue("q").ready_bytes == 0 and stored.vhost.queue("q").is_unmeasured()
    return stored


def test_all_are_measured(unmeasured: StoredBroker) -> None:
    with unmeasured as stored:
        queue = stored.vhost.queue("q")
        assert sum(1 for _ in queue.measure_pieces()) > 10
        assert queue.ready_bytes == sum(range(UNMEASURED_COUNT)) and not queue.is_unmeasured()


def test_who_looks_is_told_about_how_much_and_the_next_time_exactly(unmeasured: StoredBroker) -> None:
    with unmeasured as stored:
        queue, exactly = stored.vhost.queue("q"), sum(range(UNMEASURED_COUNT))
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
def test_whatever_comes_and_goes_between_two_pieces(unmeasured: StoredBroker, seed: int) -> None:
    chance = random.Random(seed)
    with unmeasured as stored:
        queue = stored.vhost.queue("q")
        for _ in queue.measure_pieces():
            for _ in range(chance.randrange(8)):
                if chance.random() < 0.3:
                    queue.append(message(b"y" * chance.randrange(200), persistent=True))
                elif (entry := queue.get()) is not None and chance.random() < 0.5:
                    queue.requeue([entry])
        assert queue.ready_bytes == sum(len(found.body) for found in queue.messages())


def test_a_purge_in_the_middle(unmeasured: StoredBroker) -> None:
    with unmeasured as stored:
        queue = stored.vhost.queue("q")
        pieces = queue.measure_pieces()
        next(pieces)
        queue.purge()
        queue.append(message(b"new", persistent=True))
        assert list(pieces) == [] and queue.ready_bytes == 3


def test_a_deletion_in_the_middle(unmeasured: StoredBroker) -> None:
    with unmeasured as stored:
        queue = stored.vhost.queue("q")
        pieces = queue.measure_pieces()
        next(pieces)
        stored.vhost.delete_queue(queue)
        assert list(pieces) == [] and queue.ready_bytes == 0


def test_a_limit_drops_what_is_too_much_once_that_is_known(unmeasured: StoredBroker) -> None:
    with unmeasured as stored:
        queue = stored.vhost.queue("q")
        queue.effective_changed({"x-max-length-bytes": 10_000})
        while queue.turn.incremental_work.works:
            stored.loop.run()
        assert 9_000 < queue.ready_bytes <= 10_000
        assert queue.ready_bytes == sum(len(found.body) for found in queue.messages())


# -- damage is found in what a deep queue has on disk: what is counted follows what is there


def fill(stored: StoredBroker, queue: Queue, priority: int = 0, count: int = DEEP_COUNT) -> None:
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
    take(queue, DEEP_COUNT - 3000)  # past the damage, and far from the end
    assert queue.ready_count == 2999
    assert queue.ready_bytes == 2999 * len(BODY % 0)
    # It goes on, and stays right: the queue need not be empty for that.
    fill(stored, queue, count=10)
    assert take(queue, 3009) == [*range(DEEP_COUNT - 2999, DEEP_COUNT), *range(10)]
    assert queue.get(no_ack=True) is None
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_damage_in_one_level_leaves_the_bytes_of_the_others(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    fill(stored, queue, priority=9)
    fill(stored, queue)
    damage(queue.high)
    assert len(take(queue, DEEP_COUNT - 1)) == DEEP_COUNT - 1
    for _ in queue.measure_pieces():
        pass
    assert (queue.ready_count, queue.ready_bytes) == (DEEP_COUNT, DEEP_COUNT * len(BODY % 0))
    assert take(queue, DEEP_COUNT) == list(range(DEEP_COUNT))
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)


def test_who_only_looks_finds_it_too(stored: StoredBroker) -> None:
    queue = new_queue(stored.vhost, durable=True)
    fill(stored, queue)
    damage(queue.low)
    damage(queue.low, LOST_FIRST + 2)
    assert sum(1 for _ in queue.messages()) == DEEP_COUNT - 2
    assert queue.ready_count == DEEP_COUNT - 2
    for _ in queue.measure_pieces():
        pass
    assert queue.ready_bytes == (DEEP_COUNT - 2) * len(BODY % 0)
    assert len(take(queue, DEEP_COUNT - 2)) == DEEP_COUNT - 2
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
    queue = new_queue(stored.vhost, durable=True, arguments={"x-max-length": DEEP_COUNT})
    fill(stored, queue)
    damage(queue.low)
    take(queue, DEEP_COUNT - 3000)
    fill(stored, queue, count=DEEP_COUNT - 2999)
    assert queue.ready_count == DEEP_COUNT
    assert take(queue, 1) == [DEEP_COUNT - 2999], "nothing had to go"


# -- how often a message came back, where it goes to the end of a queue that is on disk


@pytest.mark.parametrize("returns", [1, IN_FLAGS_MAX, IN_FLAGS_MAX + 1, 100_000])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_number_is_right_without_a_restart_in_between(
    tmp_path: Path, returns: int, persistent: bool
) -> None:
    stored = StoredBroker(tmp_path)
    new_queue(stored.vhost, durable=True).append(message(b"before", persistent=True))
    stored.wait_until_safe()
    with stored.restarted() as stored:
        queue = stored.vhost.queues["q"]
        queue.low.append_returned(message(b"again", persistent=persistent), 1000, returns)
        queue.correct(1, len(b"again"))
        assert queue.low.paged_count == 2
        entries = [queue.get(), queue.get()]
        assert [entry and (entry.message.body, entry.returns) for entry in entries] == [
            (b"before", 0),
            (b"again", returns),
        ]
