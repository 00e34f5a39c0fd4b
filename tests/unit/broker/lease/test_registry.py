"""Leases over restarts: what they hold is not ready, and counts again when it is given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.lease.lease import Lease
from embermq.broker.lease.reader import LeaseReading
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.turn import Turn
from tests.support.domain import NO_CONNECTION, message, new_queue
from tests.support.stored_domain import StoredBroker

COUNT = 6
BODY = bytes(100)


@pytest.mark.parametrize("measured", ["before", "after", "never"])
@pytest.mark.parametrize("leased", [1, 3, COUNT])
def test_what_is_given_back_after_a_restart_has_its_size(tmp_path: Path, leased: int, measured: str) -> None:
    stored = StoredBroker(tmp_path)
    queue = new_queue(stored.vhost, durable=True)
    for _ in range(COUNT):
        queue.append(message(BODY, persistent=True))
    lease = stored.vhost.leases.begin(queue, "lease", 0)
    lease.take(leased, 1_000_000)
    stored.vhost.leases.keep(lease)
    stored.wait_until_safe()
    with stored.restarted() as stored:
        queue = stored.vhost.queues["q"]
        if measured == "before":
            list(queue.measure_pieces())
            assert queue.ready_bytes == (COUNT - leased) * len(BODY)
        stored.vhost.leases.release(stored.vhost.leases.find(queue, "lease"))
        if measured == "after":
            list(queue.measure_pieces())
        if measured != "never":
            assert queue.ready_bytes == COUNT * len(BODY)
        assert (queue.ready_count, queue.unacked_count) == (COUNT, 0)
        taken = [entry for entry in iter(queue.get, None) if entry is not None]
        assert [entry.sequence for entry in taken] == list(range(1, COUNT + 1))
        assert (queue.ready_count, queue.ready_bytes) == (0, 0)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_cannot_be_read_now_is_given_back_later(
    tmp_path: Path, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As with too many open files: until then nothing has happened."""
    stored = StoredBroker(tmp_path / "data")
    queue = new_queue(stored.vhost, durable=True)
    for _ in range(COUNT):
        queue.append(message(BODY, persistent=True))
    lease = stored.vhost.leases.begin(queue, "lease", 0)
    lease.take(COUNT - 1, 1_000_000)
    stored.vhost.leases.keep(lease)
    stored.wait_until_safe()
    if restarted:
        stored = stored.restarted()
        queue = stored.vhost.queues["q"]
        lease = stored.vhost.leases.find(queue, "lease")
        assert queue.get() is not None  # the ring has gone past what is leased
    log = queue.low.log
    assert log is not None
    for segment in log.segments:
        stored.data.disk.forget_file(f"{log.directory}/{segment.name}")
    Path(log.directory).rename(tmp_path / "away")
    before = queue.ready_count, queue.unacked_count
    stored.vhost.leases.release(lease)
    assert stored.vhost.leases.find(queue, "lease") is lease and not lease.being_released
    assert "lease 'lease' on queue 'q' in vhost '/' cannot be released" in caplog.text
    assert (queue.ready_count, queue.unacked_count) == before
    (tmp_path / "away").rename(log.directory)
    stored.vhost.leases.release(stored.vhost.leases.find(queue, "lease"))
    taken = [entry.sequence for entry in iter(queue.get, None) if entry is not None]
    assert taken == list(range(1, COUNT if restarted else COUNT + 1))
    stored.stop()


class Reader(Consumer):
    """A consumer of a part of a lease, with a number of deliveries as credit."""

    def __init__(self, reading: LeaseReading, credit: int = 1_000_000) -> None:
        super().__init__(reading, "tag", True, False, NO_CONNECTION, {})
        self.reading = reading
        self.credit = credit
        self.got: list[tuple[int, bytes]] = []  # number in the lease, body
        self.ended = False
        reading.add_consumer(self)

    def can_take(self, size: int) -> bool:
        return self.credit > 0

    def deliver_stored(
        self,
        entry: Entry | None,
        block: bytes,
        names_at: int,
        content_at: int,
        stop: int,
        header_size: int,
        offset: int,
    ) -> int:
        self.credit -= 1
        self.got.append((offset, block[content_at + header_size : stop].rstrip()))
        return 0

    def range_delivered(self) -> None:
        self.ended = True

    @property
    def numbers(self) -> list[int]:
        return [int(body) for _, body in self.got]


def queue_with_holes(stored: StoredBroker, count: int, size: int, step: int = 2) -> Queue:
    """Of messages with their number as body, one of each `step` is left."""
    queue = new_queue(stored.vhost, durable=True)
    for number in range(count):
        queue.append(message((b"%d" % number).ljust(size), persistent=True))
    for entry in [queue.get() for _ in range(count)]:
        assert entry is not None
        if entry.sequence % step:
            queue.settle(entry)
        else:
            queue.requeue([entry])
    return queue


def taken_lease(stored: StoredBroker, queue: Queue) -> Lease:
    lease = stored.vhost.leases.begin(queue, "lease", 0)
    lease.take(1_000_000, 1 << 40)
    stored.vhost.leases.keep(lease)
    stored.wait_until_safe()
    return lease


@pytest.mark.parametrize(("count", "size", "step"), [(400, 5000, 2), (3000, 10, 2), (3000, 500, 97)])
def test_a_lease_with_holes_is_read_to_its_end(tmp_path: Path, count: int, size: int, step: int) -> None:
    with StoredBroker(tmp_path) as stored:
        lease = taken_lease(stored, queue_with_holes(stored, count, size, step))
        expected = list(range(step - 1, count, step))
        assert lease.count == len(expected)
        whole = Reader(LeaseReading(lease, 0, lease.count))
        middle = Reader(LeaseReading(lease, lease.count // 3, lease.count // 2))
        stored.loop.run()
        assert whole.got == [(at, b"%d" % number) for at, number in enumerate(expected)]
        assert middle.numbers == expected[lease.count // 3 : lease.count // 2]
        assert whole.ended and middle.ended


def test_a_reader_without_room_goes_on_when_it_has_some(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        lease = taken_lease(stored, queue_with_holes(stored, 300, 5000))
        reader = Reader(LeaseReading(lease, 0, lease.count), credit=7)
        while not reader.ended:
            assert stored.loop.run() < 100
            assert reader.credit == 0 or reader.ended
            reader.credit = 7
            reader.reading.mark()
        assert reader.numbers == list(range(1, 300, 2))


def test_what_a_lease_gives_back_has_not_failed(tmp_path: Path) -> None:
    """However often: a batch job that is begun anew must not cost messages."""
    with StoredBroker(tmp_path) as stored:
        queue = new_queue(
            stored.vhost, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 1}
        )
        for _ in range(COUNT):
            queue.append(message(BODY, persistent=True))
        for _ in range(5):
            stored.vhost.leases.release(taken_lease(stored, queue))
            assert (queue.ready_count, queue.unacked_count) == (COUNT, 0)


def test_one_that_has_been_open_for_a_day_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 1_000_000.0
    timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(delay_s: float, action: Callable[[], None]) -> Nothing:
        timers.append((delay_s, action))
        return Nothing()

    scheduled: list[Callable[[], None]] = []
    broker = Broker(Turn(scheduled.append, lambda: now_s), call_later=call_later)
    broker.create_defaults()
    vhost = broker.vhosts["/"]
    queue = new_queue(vhost)
    for _ in range(3):
        queue.append(message(BODY))
    for name, later_s in (("settled", 0), ("first", 10), ("second", 20_000)):
        now_s += later_s
        vhost.turn.refresh()
        lease = vhost.leases.begin(queue, name, 0)
        list(vhost.leases.taking(lease, 1, 1_000_000))
        if name == "settled":
            vhost.leases.settle(lease)
    told = []
    for _ in range(5):
        now_s += 40_000
        vhost.turn.refresh()
        for _, action in [timers.pop() for _ in timers]:
            action()
        told.append([name for name in ("settled", "first", "second") if f"'{name}'" in caplog.text])
    assert told == [[], ["first"], ["first", "second"], ["first", "second"], ["first", "second"]]
    assert caplog.text.count("has kept 1 messages for a day") == 2


class Nothing:
    def cancel(self) -> None:
        """A timer of this test."""
