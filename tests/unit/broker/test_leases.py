"""Leases over restarts: what they hold is not ready, and counts again when it is given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.weighing import weigh_pieces
from tests.unit.broker.stored import StoredBroker
from tests.unit.broker.world import message, new_queue

COUNT = 6
BODY = bytes(100)


@pytest.mark.parametrize("weighed", ["before", "after", "never"])
@pytest.mark.parametrize("leased", [1, 3, COUNT])
def test_what_is_given_back_after_a_restart_has_its_size(tmp_path: Path, leased: int, weighed: str) -> None:
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
        if weighed == "before":
            list(weigh_pieces(queue))
            assert queue.ready_bytes == (COUNT - leased) * len(BODY)
        stored.vhost.leases.release(stored.vhost.leases.find(queue, "lease"))
        if weighed == "after":
            list(weigh_pieces(queue))
        if weighed != "never":
            assert queue.ready_bytes == COUNT * len(BODY)
        assert (queue.ready_count, queue.unacked_count) == (COUNT, 0)
        taken = [entry for entry in iter(queue.get, None) if entry is not None]
        assert [entry.sequence for entry in taken] == list(range(1, COUNT + 1))
        assert (queue.ready_count, queue.ready_bytes) == (0, 0)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_cannot_be_read_now_is_given_back_later(tmp_path: Path, restarted: bool) -> None:
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
    with pytest.raises(OSError):
        stored.vhost.leases.release(lease)
    assert (queue.ready_count, queue.unacked_count) == before
    (tmp_path / "away").rename(log.directory)
    stored.vhost.leases.release(stored.vhost.leases.find(queue, "lease"))
    taken = [entry.sequence for entry in iter(queue.get, None) if entry is not None]
    assert taken == list(range(1, COUNT if restarted else COUNT + 1))
    stored.stop()
