"""Messages taken out of the middle of a queue, from memory and from disk: order and counts stay right."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.broker.queue.browse import Place, ready_from
from embermq.broker.queue.extract import done_with, put_back, withdraw
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker

COUNT = 60
FILLER = bytes(20_000)  # so that the window, filled by blocks of half a megabyte, holds some and not all

STEPS = st.lists(
    st.tuples(st.sampled_from(["get", "withdraw", "back", "done", "append", "look"]), st.integers(0, 2**30)),
    max_size=25,
)


def number_of(found: Entry) -> int:
    return int.from_bytes(found.message.body[:4], "big")


def seen_numbers(queue: Queue) -> list[int]:
    return [int.from_bytes(seen.message.body[:4], "big") for seen in ready_from(queue)]


@settings(max_examples=25, deadline=None)
@given(STEPS, st.booleans())
def test_a_queue_behaves_as_a_list_does(steps: list[tuple[str, int]], on_disk: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stored = StoredBroker(Path(directory) / "data")
        queue = new_queue(stored.vhost, durable=True)
        for number in range(COUNT):
            queue.append(message(number.to_bytes(4, "big") + FILLER, persistent=True))
        if on_disk:  # after a start everything is on disk, and comes into memory as it is needed
            stored.wait_until_safe()
            stored = stored.restarted()
            queue = stored.vhost.queues["q"]
        with stored:
            run(stored, queue, steps)


def run(stored: StoredBroker, queue: Queue, steps: list[tuple[str, int]]) -> None:
    ready = list(range(COUNT))
    held: list[Entry] = []
    gone: set[int] = set()
    for what, choice in steps:
        if what == "get":
            entry = queue.get()
            if entry is not None:
                assert number_of(entry) == ready.pop(0)
                gone.add(number_of(entry))
                queue.settle(entry)
            elif not held:
                assert not ready
        elif what == "withdraw":
            chosen = [seen for index, seen in enumerate(ready_from(queue)) if choice >> index % 30 & 1]
            entries = withdraw(queue, chosen)
            held += entries
            ready = [number for number in ready if number not in {number_of(entry) for entry in entries}]
        elif what == "back":
            put_back(queue, held)
            ready = sorted({*ready, *(number_of(entry) for entry in held)})
            held = []
        elif what == "done":
            done_with(held)
            gone |= {number_of(entry) for entry in held}
            held = []
        elif what == "append":
            number = COUNT + choice % 1000 + len(ready) * 1000
            if not ready or number > ready[-1]:
                if number not in gone and number not in {number_of(entry) for entry in held}:
                    if not held or number > max(number_of(entry) for entry in held):
                        queue.append(message(number.to_bytes(4, "big") + FILLER, persistent=True))
                        ready.append(number)
        stored.loop.run()
        assert seen_numbers(queue) == ready
        assert queue.ready_count == len(ready)
    put_back(queue, held)
    ready = sorted({*ready, *(number_of(entry) for entry in held)})
    taken = []
    while (entry := queue.get()) is not None:
        taken.append(number_of(entry))
        queue.settle(entry)
    assert taken == ready
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 0)
    stored.loop.run()
    assert queue.low.log is not None and queue.low.log.count == 0, "every record is acked"


def test_a_place_is_written_and_read() -> None:
    for place in (Place("", 5), Place("high", 7), Place("p003", 1)):
        assert Place.parse(str(place)) == place


def test_what_comes_while_all_is_taken_out_is_there_once(tmp_path: Path) -> None:
    """A move that ends at a full queue, whose dead letters come to where the move began."""
    stored = StoredBroker(tmp_path / "data")
    queue = new_queue(stored.vhost, durable=True)
    for number in range(3):
        queue.append(message(number.to_bytes(4, "big"), persistent=True))
    stored.wait_until_safe()
    with stored.restarted() as stored:
        queue = stored.vhost.queues["q"]
        entries = withdraw(queue, list(ready_from(queue)))
        queue.append(message((3).to_bytes(4, "big"), persistent=True))
        put_back(queue, entries)
        assert queue.ready_count == 4
        assert seen_numbers(queue) == [0, 1, 2, 3]
        taken = [entry for entry in iter(queue.get, None) if entry is not None]
        assert [number_of(entry) for entry in taken] == [0, 1, 2, 3]
        assert (queue.ready_count, queue.ready_bytes) == (0, 0)
