"""Selecting consumers against a plain model: random publishes, acks, requeues, gets, purges, and a crash.

The model knows of the language no more than a function in Python beside each selector. What must hold: a
consumer gets only what its condition is true of, in the order of the queue; nothing waits that a consumer
with credit selects; nothing is lost or there twice; counts and bytes are right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.broker.message.message import Message
from embermq.broker.queue.browse import ready_from
from embermq.broker.queue.level import Entry
from embermq.wire.properties import Properties
from tests.support.domain import Taker, message, new_queue
from tests.support.stored_domain import StoredBroker

Facts = dict[str, Any]
# A selector, and what it means: True, False, or unknown, which is not True.
SELECTORS: list[tuple[str, Callable[[Facts], bool]]] = [
    ("", lambda facts: True),
    ("colour = 'red'", lambda facts: facts["colour"] == "red"),
    ("colour = 'blue'", lambda facts: facts["colour"] == "blue"),
    (
        "colour IN ('red', 'green') AND number > 5",
        lambda f: f["colour"] in ("red", "green") and f["number"] > 5,
    ),
    (
        "number BETWEEN 10 AND 20 OR colour LIKE '%e'",
        lambda f: 10 <= f["number"] <= 20 or f["colour"] == "blue",
    ),
    ("NOT colour = 'red'", lambda facts: facts["colour"] != "red"),
    ("absent = 5 OR number / 2 * 2 = number", lambda facts: facts["number"] % 2 == 0),
    ("NOT (absent = 5)", lambda facts: False),
    ("amqp.redelivered = TRUE", lambda facts: facts["redelivered"]),
]
COLOURS = ("red", "blue", "green")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "publish",
                "publish",
                "publish",
                "consume",
                "consume",
                "cancel",
                "ack",
                "requeue",
                "credit",
                "get",
                "purge",
            ]
        ),
        st.integers(0, 2**30),
    ),
    max_size=60,
)


def message_number(number: int, colour: str, filler: int) -> Message:
    properties = Properties(headers={"number": number, "colour": colour}).encode()
    return message(number.to_bytes(4, "big") + bytes(filler), properties=properties, persistent=True)


def number_in(message: Message) -> int:
    return int.from_bytes(message.body[:4], "big")


def number_of(entry: Entry) -> int:
    return number_in(entry.message)


class Run:
    def __init__(self, stored: StoredBroker, filler: int) -> None:
        self.stored = stored
        self.filler = filler
        self.queue: Any = new_queue(stored.vhost, durable=True)
        self.facts: dict[int, Facts] = {}
        self.ready: set[int] = set()
        self.out: dict[int, Entry] = {}
        self.consumers: list[tuple[Taker, Callable[[Facts], bool]]] = []
        self.seen: dict[Taker, int] = {}  # how many of its deliveries were checked

    def publish(self, choice: int) -> None:
        for _ in range(choice % 20):
            number = len(self.facts)
            colour = COLOURS[(choice // 20 + number * number) % 3]
            self.facts[number] = {"number": number, "colour": colour, "redelivered": False}
            self.queue.append(message_number(number, colour, self.filler))
            self.ready.add(number)

    def consume(self, choice: int) -> None:
        selector, meaning = SELECTORS[choice % len(SELECTORS)]
        taker = Taker(self.queue, credit=choice // 100 % 8, selector=selector, priority=choice // 1000 % 2)
        self.queue.add_consumer(taker)
        self.consumers.append((taker, meaning))
        self.seen[taker] = 0

    def cancel(self, choice: int) -> None:
        if self.consumers:
            taker, _ = self.consumers.pop(choice % len(self.consumers))
            self.queue.remove_consumer(taker)

    def some_out(self, choice: int) -> list[int]:
        numbers = sorted(self.out)
        return numbers[choice % (len(numbers) + 1) :: 1 + choice // 64 % 3]

    def ack(self, choice: int) -> None:
        for number in self.some_out(choice):
            self.queue.settle(self.out.pop(number))

    def requeue(self, choice: int) -> None:
        back = self.some_out(choice)
        if back:
            self.queue.requeue([self.out.pop(number) for number in back])
        for number in back:
            self.facts[number]["redelivered"] = True
            self.ready.add(number)

    def credit(self, choice: int) -> None:
        if self.consumers:
            taker, _ = self.consumers[choice % len(self.consumers)]
            taker.credit += choice // 64 % 10
            self.queue.mark()

    def get(self, choice: int) -> None:
        entry = self.queue.get()
        assert (None if entry is None else number_of(entry)) == min(self.ready, default=None)
        if entry is not None:
            self.ready.remove(number_of(entry))
            self.out[number_of(entry)] = entry

    def purge(self, choice: int) -> None:
        if choice % 5 == 0:
            assert self.queue.purge() == len(self.ready)
            self.ready.clear()

    def check(self) -> None:
        for taker, meaning in self.consumers:
            new = taker.got[self.seen[taker] :]
            self.seen[taker] = len(taker.got)
            numbers = [number_of(entry) for entry in new]
            assert numbers == sorted(numbers), "out of order"
            for number, entry in zip(numbers, new, strict=True):
                assert number in self.ready, "twice, or acknowledged"
                assert meaning(self.facts[number]), "not selected"
                assert bool(entry.redelivered) == self.facts[number]["redelivered"]
                self.ready.remove(number)
                self.out[number] = entry
        for taker, meaning in self.consumers:
            if taker.credit > 0:
                assert not [number for number in self.ready if meaning(self.facts[number])], "left waiting"
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.ready_bytes == len(self.ready) * (4 + self.filler)
        assert self.queue.unacked_count == len(self.out)
        waiting = [number_in(seen.message) for seen in ready_from(self.queue)]
        assert waiting == sorted(self.ready)


@pytest.mark.parametrize("filler", [0, 20_000], ids=["in memory", "mostly on disk"])
@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_a_queue_with_selecting_consumers_behaves_as_the_model(
    filler: int, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stored = StoredBroker(Path(directory) / "data")
        try:
            run = Run(stored, filler)
            if filler:
                stored.loop.turn.tight = True  # so that little is kept in memory
                for _ in range(3):
                    run.publish(19)
            for what, choice in steps:
                getattr(run, what)(choice)
                stored.loop.run()
                run.check()
            stored.wait_until_safe()
        finally:
            stored.stop(cleanly=False)
        with StoredBroker(Path(directory) / "data") as again:  # as after a crash: what was out is back
            waiting = [number_in(seen.message) for seen in ready_from(again.vhost.queues["q"])]
            assert waiting == sorted(run.ready | run.out.keys())
