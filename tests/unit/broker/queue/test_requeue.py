"""Many messages come back: in pieces, all at once in the end, each to its place, whatever happens."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from embermq.broker.queue import level, requeue, runs
from embermq.broker.queue.browse import Place, ready_from
from embermq.broker.queue.extract import done_with, withdraw
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.runs import SortedRuns, body_bytes_of
from tests.support.domain import Loop, Taker, message, new_queue, new_vhost
from tests.support.settling_rules import SettlingRules
from tests.support.stored_domain import StoredBroker

Numbers = list[int]


def give_back(*blocks: Collection[Entry]) -> Iterator[None]:
    return requeue.give_back(list(blocks), lambda entries: None)


def finish(pieces: Iterator[None]) -> int:
    return sum(1 for _ in pieces)


def taken(queue: Queue, count: int) -> list[Entry]:
    entries = [queue.get() for _ in range(count)]
    return [entry for entry in entries if entry is not None]


def numbers(entries: Collection[Entry]) -> Numbers:
    return [int(entry.message.body) for entry in entries]


def ready(queue: Queue) -> Numbers:
    return [int(found.body) for found in queue.messages()]


def filled(queue: Queue, count: int, *, persistent: bool = False) -> Queue:
    for number in range(count):
        queue.append(message(b"%d" % number, priority=number % 7, persistent=persistent))
    return queue


class Returning(SettlingRules):
    """A durable queue with two levels, of which much is out and comes back while others work with it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(requeue, "PIECE_COUNT", 3)
        self.patch.setattr(runs, "RUN_COUNT_MAX", 4)
        self.patch.setattr(level, "MERGED_COUNT", 2)
        self.stored = StoredBroker(self.directory / "data")
        new_queue(self.stored.vhost, durable=True)
        self.ready: list[tuple[int, int]] = []  # in the order of leaving: level, number
        self.out: list[Entry] = []
        self.coming: list[tuple[Iterator[None], list[Entry]]] = []  # on their way back
        self.delivered: set[int] = set()
        self.arrived = 0

    def teardown(self) -> None:
        self.patch.undo()
        self.stored.stop()
        shutil.rmtree(self.directory)

    @property
    def queue(self) -> Queue:
        return self.stored.vhost.queues["q"]

    @rule(priorities=st.lists(st.sampled_from((0, 9)), min_size=1, max_size=20))
    def publish(self, priorities: list[int]) -> None:
        for priority in priorities:
            self.arrived += 1
            self.queue.append(message(b"%d" % self.arrived, priority=priority, persistent=True))
            self.ready.append((-priority, self.arrived))
        self.ready.sort()

    @rule(count=st.integers(1, 30))
    def get(self, count: int) -> None:
        for entry in taken(self.queue, count):
            number = int(entry.message.body)
            assert (-entry.message.priority, number) == self.ready.pop(0)
            assert bool(entry.redelivered) == (number in self.delivered)
            self.delivered.add(number)
            self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), cut=st.integers(1, 9))
    def begin_to_give_back(self, data: st.DataObject, cut: int) -> None:
        entries = self.some_out(data)
        blocks = [entries[at : at + cut] for at in range(0, len(entries), cut)]
        self.coming.append((give_back(*blocks), entries))

    @precondition(lambda self: self.coming)
    @rule(data=st.data(), pieces=st.integers(1, 20))
    def go_on(self, data: st.DataObject, pieces: int) -> None:
        work = data.draw(st.sampled_from(self.coming))
        for _ in range(pieces):
            if next(work[0], "done") == "done":
                self.coming.remove(work)
                self.ready += [(-entry.message.priority, int(entry.message.body)) for entry in work[1]]
                self.ready.sort()
                return

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.out))
        self.out.remove(entry)
        self.queue.requeue([entry])
        self.ready.append((-entry.message.priority, int(entry.message.body)))
        self.ready.sort()

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """Messages go from the middle, as a task takes them."""
        wanted = set(data.draw(st.lists(st.sampled_from(self.ready), unique=True, min_size=1)))
        seen = [
            found
            for found in ready_from(self.queue)
            if (-found.message.priority, int(found.message.body)) in wanted
        ]
        done_with(withdraw(self.queue, seen))
        self.ready = [place for place in self.ready if place not in wanted]

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @rule()
    def turn(self) -> None:
        self.stored.loop.run()

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        """What was not settled is there again, wherever it was on its way."""
        away = [*self.out, *(entry for _, entries in self.coming for entry in entries)]
        self.ready += [(-entry.message.priority, int(entry.message.body)) for entry in away]
        self.ready.sort()
        self.out, self.coming = [], []
        self.stored = self.stored.restarted(cleanly)
        if not cleanly:
            self.delivered |= {number for _, number in self.ready}
        else:  # what stands before one that was delivered counts as delivered, too
            for level in {level for level, _ in self.ready}:
                last = max((n for at, n in self.ready if at == level and n in self.delivered), default=0)
                self.delivered |= {n for at, n in self.ready if at == level and n <= last}

    @invariant()
    def as_the_model_says(self) -> None:
        queue = self.queue
        assert queue.ready_count == len(self.ready)
        assert queue.unacked_count == len(self.out) + sum(len(entries) for _, entries in self.coming)
        assert ready(queue) == [number for _, number in self.ready]
        found = list(ready_from(queue))
        assert (
            [seen.sequence for seen in ready_from(queue, found[-1].place)]
            == [seen.sequence for seen in found[-1:]]
            if found
            else not self.ready
        )


Returning.TestCase.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
TestReturning = Returning.TestCase


def test_they_are_out_until_the_last_is_back_and_then_first_in_line() -> None:
    queue = filled(new_queue(new_vhost(Loop())), 5000)
    entries = taken(queue, 4000)
    order = numbers(entries)
    pieces = give_back(entries[2000:], entries[:2000])
    for _ in range(5):
        next(pieces)
        assert (queue.unacked_count, queue.ready_count) == (4000, 1000)
    between = taken(queue, 1)
    assert numbers(between) not in [order[:1], []], "those behind are there for others meanwhile"
    assert finish(pieces) > 5
    assert (queue.unacked_count, queue.ready_count) == (1, 4999)
    assert queue.ready_bytes == sum(len(found.body) for found in queue.messages())
    again = taken(queue, 4000)
    assert numbers(again) == order and all(entry.redelivered for entry in again)


@pytest.mark.parametrize("order", ["first", "last", "any"])
def test_one_by_one_they_do_not_look_for_their_places_in_a_deep_ring(order: str) -> None:
    queue = new_queue(new_vhost(Loop()))
    for number in range(3500):
        queue.append(message(b"%d" % number))
    entries = taken(queue, 3000)
    if order == "last":
        entries.reverse()
    elif order == "any":
        random.Random(1).shuffle(entries)
    for entry in entries:
        queue.requeue([entry])
    assert (queue.ready_count, queue.unacked_count) == (3500, 0)
    beside = queue.low.returned
    if order == "last":  # each comes before all others: that is where the ring begins
        assert beside is None
    else:
        assert beside is not None and beside.count > 1500
    if order == "first":
        assert beside is not None and len(beside.heap) <= 3, "those that follow each other stand together"
    assert ready(queue) == list(range(3500))
    assert queue.ready_bytes == sum(len(b"%d" % number) for number in range(3500))
    assert numbers(taken(queue, 3500)) == list(range(3500))
    assert queue.low.returned is None


@pytest.mark.parametrize("seed", range(20))
def test_runs_give_what_is_first_whatever_run_it_is_in(seed: int) -> None:
    dice = random.Random(seed)
    queue = new_queue(new_vhost(Loop()))
    for number in range(300):
        queue.append(message(b"%d" % number))
    left = taken(queue, 300)
    runs = SortedRuns()
    parts: list[list[Entry]] = [[] for _ in range(5)]
    for entry in left:
        dice.choice(parts).append(entry)
    for part in parts:
        runs.add(part)
    while left:
        count, below = dice.randrange(1, 60), left[min(dice.randrange(60), len(left) - 1)].sequence + 1
        expected = [entry for entry in left if entry.sequence < below][:count]
        assert runs.take(count, below) == expected
        left = left[len(expected) :]
        assert (runs.count, runs.body_bytes) == (len(left), body_bytes_of(left))
    assert not runs.heap


def test_consumers_share_what_came_back_from_several_in_order() -> None:
    loop = Loop()
    queue = filled(new_queue(new_vhost(loop)), 6000)
    entries = taken(queue, 6000)
    order = numbers(entries)
    for part in range(3):  # each has every third: what they give back lies between each other
        finish(give_back(entries[part::3]))
    takers = [Taker(queue), Taker(queue)]
    for taker in takers:
        queue.add_consumer(taker)
    loop.run()
    assert [numbers(taker.got) for taker in takers] == [order[::2], order[1::2]]


def test_of_a_queue_that_is_deleted_meanwhile_nothing_is_left() -> None:
    vhost = new_vhost(Loop())
    queue = filled(new_queue(vhost), 2000)
    pieces = give_back(taken(queue, 1500))
    next(pieces)
    assert vhost.delete_queue(queue) == 500
    finish(pieces)
    assert (queue.unacked_count, queue.ready_count) == (0, 0)


def test_what_comes_back_to_a_deleted_queue_becomes_dead_letters() -> None:
    vhost = new_vhost(Loop())
    dead = new_queue(vhost, "dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queue = filled(new_queue(vhost, arguments=letters), 2000)
    pieces = give_back(taken(queue, 1500))
    next(pieces)
    vhost.delete_queue(queue)
    vhost.turn.incremental_work.finish()
    finish(pieces)
    assert queue.unacked_count == 0
    assert sorted(ready(dead)) == list(range(2000))


def test_a_place_in_the_middle_of_what_came_back_can_be_looked_at() -> None:
    queue = new_queue(new_vhost(Loop()))
    for number in range(5000):
        queue.append(message(b"%d" % number))
    entries = taken(queue, 5000)
    finish(give_back(entries[1::2]))
    finish(give_back(entries[::2]))
    found = ready_from(queue, Place("", entries[3210].sequence))
    assert [int(next(found).message.body) for _ in range(1000)] == list(range(3210, 4210))


def test_a_purge_in_the_middle_leaves_what_is_out_on_disk(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    queue = filled(new_queue(stored.vhost, durable=True), 3000, persistent=True)
    first, others = taken(queue, 100), taken(queue, 2400)
    finish(give_back(others))
    assert queue.purge() == 2900
    assert (queue.ready_count, queue.unacked_count) == (0, 100)
    done: list[bool] = []
    stored.loop.turn.incremental_work.when_done(queue, lambda: done.append(True))
    assert not done, "the records are forgotten in pieces"
    stored.loop.run()
    assert done
    stored.stop(cleanly=False)
    with StoredBroker(tmp_path / "data") as again:
        assert sorted(ready(again.vhost.queues["q"])) == sorted(numbers(first))
