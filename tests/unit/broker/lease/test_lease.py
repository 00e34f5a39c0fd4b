"""A large lease is given back in pieces, between which all others have their turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.broker.lease.lease import READ_BYTES, Lease
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.requeue import PIECE_COUNT
from embermq.store.log.record import RECORD_HEADER_SIZE
from tests.support.domain import Taker, message, new_queue
from tests.support.stored_domain import StoredBroker

BODY = bytes(400)
LEASED, WAITING = 3000, 300
PIECES_MIN = min(LEASED * (RECORD_HEADER_SIZE + len(BODY)) // READ_BYTES, LEASED // PIECE_COUNT)


def leased(stored: StoredBroker, persistent: bool = True, **more: object) -> tuple[Queue, Lease]:
    """A queue of LEASED + WAITING messages, and a lease of the first of them; one piece in a turn."""
    queue = new_queue(stored.vhost, durable=True, **more)
    for _ in range(LEASED + WAITING):
        queue.append(message(BODY, persistent=persistent))
    lease = stored.vhost.leases.begin(queue, "lease", 0)
    list(stored.vhost.leases.taking(lease, LEASED, 1 << 40))
    stored.wait_until_safe()
    stored.loop.turn.incremental_work.share_s = 0.0
    return queue, lease


def restarted(stored: StoredBroker, cleanly: bool = True) -> tuple[StoredBroker, Queue, Lease]:
    stored = stored.restarted(cleanly)
    stored.loop.turn.incremental_work.share_s = 0.0
    queue = stored.vhost.queues["q"]
    return stored, queue, stored.vhost.leases.find(queue, "lease")


def one_pass(stored: StoredBroker) -> None:
    scheduled, stored.loop.scheduled[:] = list(stored.loop.scheduled), []
    for action in scheduled:
        action()


def release(stored: StoredBroker, lease: Lease, meanwhile: Callable[[int], None]) -> int:
    """How many turns that takes; the action comes between them."""
    done: list[bool] = []
    stored.vhost.leases.release(lease, done=lambda: done.append(True))
    turns = 0
    while not done:
        meanwhile(turns)
        one_pass(stored)
        turns += 1
    return turns


def sequences(queue: Queue) -> list[int]:
    taken = [entry for entry in iter(queue.get, None) if entry is not None]
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)
    return [entry.sequence for entry in taken]


@pytest.mark.parametrize("way", ["at once", "in memory", "after a restart", "measured after a restart"])
def test_others_have_their_turns_and_then_all_is_back(tmp_path: Path, way: str) -> None:
    stored = StoredBroker(tmp_path)
    queue, lease = leased(stored, persistent=way != "in memory")
    if "restart" in way:
        stored, queue, lease = restarted(stored)
    if "measured" in way:
        list(queue.measure_pieces())
    other = new_queue(stored.vhost, "other")
    other.add_consumer(taker := Taker(other, no_ack=True))

    def meanwhile(turn: int) -> None:
        assert len(taker.got) == turn, "each turn delivers what came before it"
        other.append(message(b"other"))
        assert (queue.ready_count, queue.unacked_count) == (WAITING, LEASED)
        if way != "in memory":
            (kept,) = stored.data.definitions.all("lease")
            assert kept.body["state"] == "open"

    with stored:
        assert release(stored, lease, meanwhile) >= PIECES_MIN
        assert (queue.ready_count, queue.unacked_count, queue.unacked_bytes) == (LEASED + WAITING, 0, 0)
        list(queue.measure_pieces())
        assert queue.ready_bytes == (LEASED + WAITING) * len(BODY)
        states = [note.body["state"] for note in stored.data.definitions.all("lease")]
        assert states == ([] if way == "in memory" else ["released"])
        assert sequences(queue) == list(range(1, LEASED + WAITING + 1))


def some_leased(stored: StoredBroker, leased_ones: set[int]) -> tuple[StoredBroker, Queue, Lease]:
    """A lease of those sequences, after a restart."""
    queue = new_queue(stored.vhost, durable=True)
    for _ in range(LEASED):
        queue.append(message(BODY, persistent=True))
    lease = stored.vhost.leases.begin(queue, "lease", 0)
    for entry in [queue.get() for _ in range(LEASED)]:
        assert entry is not None
        if entry.sequence in leased_ones:
            lease.add(entry)
        else:
            queue.requeue([entry])
    stored.vhost.leases.keep(lease)
    stored.wait_until_safe()
    return restarted(stored)


@pytest.mark.parametrize("taken_per_turn", [1, 20, 100])
@pytest.mark.parametrize("length", [1, 30, 1000])
def test_a_queue_that_is_emptied_meanwhile(tmp_path: Path, length: int, taken_per_turn: int) -> None:
    """It passes over what is leased, piece by piece, since it was started anew."""
    leased_ones = {number for number in range(1, LEASED + 1) if number // length % 2 == 0}
    stored, queue, lease = some_leased(StoredBroker(tmp_path), leased_ones)
    taken: list[int] = []

    def meanwhile(_: int) -> None:
        for _ in range(taken_per_turn):
            entry = queue.get()
            if entry is not None:
                taken.append(entry.sequence)
                queue.settle(entry)

    with stored:
        release(stored, lease, meanwhile)
        assert taken == sorted(taken)
        assert queue.unacked_count == 0
        left = sequences(queue)
        assert left == sorted(left)
        assert sorted(taken + left) == list(range(1, LEASED + 1))


def test_a_queue_that_has_come_to_the_middle_of_a_piece(tmp_path: Path) -> None:
    stored, queue, lease = some_leased(StoredBroker(tmp_path), set(range(1151, 2501)))
    with stored:
        entry = queue.get()
        assert entry is not None and 1151 < queue.low.paged_from < 1250
        queue.requeue([entry])
        release(stored, lease, lambda turn: None)
        assert sequences(queue) == list(range(1, LEASED + 1))


@pytest.mark.parametrize("again", [False, True])
def test_what_is_deleted_meanwhile_is_gone(tmp_path: Path, again: bool) -> None:
    stored = StoredBroker(tmp_path)
    queue, lease = leased(stored)
    if again:
        stored, queue, lease = restarted(stored)

    def meanwhile(turn: int) -> None:
        if turn == 2:
            stored.vhost.delete_queue(queue)

    with stored:
        assert release(stored, lease, meanwhile) < PIECES_MIN
        stored.wait_until_safe()
        assert stored.data.definitions.all("lease") == []
        assert not stored.vhost.leases.of and not stored.vhost.leases.released
    with StoredBroker(tmp_path) as stored:
        assert stored.vhost.queues == {}


@pytest.mark.parametrize("cleanly", [False, True])
def test_a_broker_that_stops_meanwhile_has_the_lease_or_its_messages(tmp_path: Path, cleanly: bool) -> None:
    stored = StoredBroker(tmp_path)
    _, lease = leased(stored)
    stored.vhost.leases.release(lease)
    for _ in range(3):
        one_pass(stored)
    assert lease.being_released
    if not cleanly:
        stored.loop.scheduled.clear()  # nothing more is done
    stored = stored.restarted(cleanly)
    with stored:
        queue = stored.vhost.queues["q"]
        if not cleanly:
            assert (queue.ready_count, queue.unacked_count) == (WAITING, LEASED)
            release(stored, stored.vhost.leases.find(queue, "lease"), lambda turn: None)
        assert not stored.vhost.leases.of
        assert sequences(queue) == list(range(1, LEASED + WAITING + 1))


@pytest.mark.parametrize("again", [False, True])
def test_what_cannot_be_read_in_the_middle_is_a_lease_as_before(tmp_path: Path, again: bool) -> None:
    stored = StoredBroker(tmp_path / "data")
    queue, lease = leased(stored, arguments={"x-delivery-limit": 10})
    if again:
        stored, queue, lease = restarted(stored)
    log = queue.low.log
    assert log is not None

    def meanwhile(turn: int) -> None:
        if turn == 3:
            for segment in log.segments:
                stored.data.disk.forget_file(f"{log.directory}/{segment.name}")
            Path(log.directory).rename(tmp_path / "away")

    with stored:
        release(stored, lease, meanwhile)
        assert (queue.ready_count, queue.unacked_count) == (WAITING, LEASED)
        assert stored.vhost.leases.find(queue, "lease") is lease and not lease.being_released
        (tmp_path / "away").rename(log.directory)
        release(stored, lease, lambda turn: None)
        assert sequences(queue) == list(range(1, LEASED + WAITING + 1))


def test_one_that_cannot_be_made_is_given_back_in_pieces(tmp_path: Path) -> None:
    """As when the client that asked for it is gone."""
    with StoredBroker(tmp_path) as stored:
        queue = new_queue(stored.vhost, durable=True)
        for _ in range(LEASED):
            queue.append(message(BODY, persistent=True))
        stored.loop.turn.incremental_work.share_s = 0.0
        lease = stored.vhost.leases.begin(queue, "lease", 0)
        taking = stored.vhost.leases.taking(lease, LEASED, 1 << 40)
        while lease.count < LEASED // 2:
            next(taking)
        taking.close()  # type: ignore[attr-defined]
        assert lease.being_released and stored.loop.run() >= PIECES_MIN // 2
        assert not stored.vhost.leases.of
        assert sequences(queue) == list(range(1, LEASED + 1))
