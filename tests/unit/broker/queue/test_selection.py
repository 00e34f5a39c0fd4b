"""Selecting consumers of a queue: each message to one that it fits, in order, past those that fit none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.broker.message.message import Message
from embermq.broker.queue.browse import ready_from
from embermq.broker.queue.level import Entry
from embermq.wire.properties import Properties
from tests.support.domain import Loop, Taker, constant, message, new_queue, new_vhost
from tests.support.stored_domain import StoredBroker

WINDOW_COUNT = constant("embermq.broker.queue.level", "WINDOW_COUNT")
MATCHES_MAX = constant("embermq.broker.queue.selection", "MATCHES_MAX")


def coloured(
    colour: str, number: int = 0, persistent: bool = False, priority: int = 0, size: int = 0, **more: Any
) -> Message:
    properties = Properties(headers={"colour": colour, "number": number}, **more).encode()
    body = b"%s %d" % (colour.encode(), number) + bytes(size)
    return message(body, properties=properties, persistent=persistent, priority=priority)


def names(taker: Taker) -> list[str]:
    return [body.rstrip(b"\0").decode() for body in taker.bodies]


class Scene:
    """A queue, with turns at hand."""

    def __init__(self, **arguments: object) -> None:
        self.loop = Loop()
        self.vhost = new_vhost(self.loop)
        self.queue: Any = new_queue(self.vhost, arguments=arguments)

    def publish(self, *colours: str) -> None:
        for colour in colours:
            self.queue.append(coloured(colour, self.queue.published_count))
        self.loop.run()

    def consumer(self, selector: str, **more: Any) -> Taker:
        taker = Taker(self.queue, selector=selector, **more)
        self.queue.add_consumer(taker)
        self.loop.run()
        return taker

    def give_back(self, *entries: Entry) -> None:
        self.queue.requeue(list(entries))
        self.loop.run()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_messages_go_to_the_consumers_that_they_fit_and_the_rest_stays(scene: Scene) -> None:
    scene.publish("red", "blue", "green", "red")
    red, blue = scene.consumer("colour = 'red'"), scene.consumer("colour = 'blue'")
    assert names(red) == ["red 0", "red 3"]
    assert names(blue) == ["blue 1"]
    scene.publish("green", "red", "blue")
    assert names(red) == ["red 0", "red 3", "red 5"]
    assert names(blue) == ["blue 1", "blue 6"]
    assert scene.queue.ready_count == 2
    assert scene.queue.unacked_count == 5
    assert [str(seen.message.body, "ascii") for seen in ready(scene)] == ["green 2", "green 4"]


def ready(scene: Scene) -> Iterator[Any]:
    return ready_from(scene.queue)


def test_consumers_that_a_message_fits_take_turns(scene: Scene) -> None:
    one, other = scene.consumer("colour = 'red'"), scene.consumer("colour = 'red'")
    third = scene.consumer("colour LIKE 'r%'")
    plain = scene.consumer("")
    scene.publish(*["red"] * 8)
    assert [len(taker.got) for taker in (one, other, third, plain)] == [2, 2, 2, 2]
    scene.publish("blue", "blue")
    assert names(plain)[2:] == ["blue 8", "blue 9"]


def test_a_consumer_of_a_higher_priority_comes_first(scene: Scene) -> None:
    low = scene.consumer("colour = 'red'")
    high = scene.consumer("number >= 0", priority=5, credit=2)
    scene.publish("red", "blue", "red", "blue", "red")
    assert names(high) == ["red 0", "blue 1"]
    assert names(low) == ["red 2", "red 4"]


def test_a_consumer_without_credit_holds_up_nothing_that_others_can_have(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'", credit=1)
    blue = scene.consumer("colour = 'blue'")
    plain = scene.consumer("", credit=0)
    scene.publish("red", "red", "blue", "red", "blue")
    assert names(red) == ["red 0"]
    assert names(blue) == ["blue 2", "blue 4"]
    red.credit = 5
    scene.queue.mark()
    scene.loop.run()
    assert names(red) == ["red 0", "red 1", "red 3"]
    assert plain.got == []


def test_what_comes_back_is_offered_again_in_its_place(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'", credit=3)
    scene.publish("blue", "red", "red", "red", "red")
    assert names(red) == ["red 1", "red 2", "red 3"]
    red.credit = 3
    scene.give_back(red.got[1], red.got[0])
    assert names(red)[3:] == ["red 1", "red 2", "red 4"]
    assert [entry.redelivered for entry in red.got[3:]] == [True, True, False]


def test_redelivered_can_be_selected(scene: Scene) -> None:
    first = scene.consumer("amqp.redelivered = FALSE")
    scene.publish("red", "blue")
    again = scene.consumer("amqp.redelivered = TRUE")
    scene.give_back(first.got[0])
    assert names(again) == ["red 0"]
    assert names(first) == ["red 0", "blue 1"]


def test_a_new_consumer_gets_what_has_waited(scene: Scene) -> None:
    scene.consumer("colour = 'red'")
    scene.publish("blue", "green", "red")
    assert names(scene.consumer("colour = 'green'")) == ["green 1"]
    plain = scene.consumer("")
    assert names(plain) == ["blue 0"]


def test_a_selector_that_had_consumers_before_goes_on_where_it_was(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'")
    scene.publish("blue", "red", "red")
    scene.queue.remove_consumer(red)
    scene.publish("red")
    scene.give_back(red.got[0])
    again = scene.consumer("colour = 'red'")
    assert names(again) == ["red 1", "red 3"]


def test_basic_get_takes_the_head_whatever_consumers_select(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'", credit=0)
    scene.publish("red", "red", "blue")
    entry = scene.queue.get()
    assert entry.message.body == b"red 0"
    red.credit = 10
    scene.queue.mark()
    scene.loop.run()
    assert names(red) == ["red 1"]


def test_no_local_consumers_with_and_without_selectors(scene: Scene) -> None:
    publisher = 7  # of `message`
    deaf = scene.consumer("", no_local_of=publisher)
    choosy = scene.consumer("colour = 'red'", no_local_of=publisher)
    other = scene.consumer("colour = 'red'", no_local_of=publisher + 1)
    scene.publish("red", "blue")
    assert (deaf.got, choosy.got, names(other)) == ([], [], ["red 0"])


def test_the_single_active_consumer_gets_what_it_selects_and_others_wait() -> None:
    scene = Scene(**{"x-single-active-consumer": True})
    red, blue = scene.consumer("colour = 'red'"), scene.consumer("colour = 'blue'")
    scene.publish("blue", "red")
    assert (names(red), names(blue)) == (["red 1"], [])
    scene.queue.remove_consumer(red)
    scene.loop.run()
    assert names(blue) == ["blue 0"]


def test_messages_of_higher_priority_leave_first() -> None:
    scene = Scene(**{"x-max-priority": 9})
    for number, priority in enumerate([0, 5, 9, 5]):
        scene.queue.append(coloured("red", number, priority=priority))
        scene.queue.append(coloured("blue", number, priority=priority))
    red = scene.consumer("colour = 'red'")
    assert names(red) == ["red 2", "red 1", "red 3", "red 0"]


def test_an_expired_message_is_not_delivered_wherever_it_stands() -> None:
    scene = Scene()
    scene.queue.append(coloured("blue"))
    late = coloured("red", 1)
    late.ttl_ms = 1
    scene.queue.append(late)
    scene.queue.append(coloured("red", 2))
    due = scene.queue.turn.now_ms + 2
    while scene.queue.turn.now_ms < due:
        scene.queue.turn.refresh()
    red = scene.consumer("colour = 'red'")
    assert names(red) == ["red 2"]
    assert scene.queue.ready_count == 1


def test_a_limit_drops_the_head_after_consumers_had_their_turn() -> None:
    scene = Scene(**{"x-max-length": 2})
    red = scene.consumer("colour = 'red'")
    scene.publish("blue", "green", "red", "grey", "red")
    assert names(red) == ["red 2", "red 4"]
    assert [seen.message.body for seen in ready(scene)] == [b"green 1", b"grey 3"]


def test_a_full_queue_takes_what_a_consumer_will_have_at_once() -> None:
    scene = Scene(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    red = scene.consumer("colour = 'red'")
    assert scene.queue.append(coloured("blue")) == 0
    assert scene.queue.append(coloured("blue", 1)) == 1
    assert scene.queue.append(coloured("red", 2)) == 0
    scene.loop.run()
    assert names(red) == ["red 2"]


def test_a_purged_queue_has_nothing_for_its_consumers(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'", credit=0)
    scene.publish("red", "blue", "red")
    assert scene.queue.purge() == 3
    red.credit = 10
    scene.publish("blue", "red")
    assert names(red) == ["red 4"]


def test_publishers_are_slowed_by_what_waits_for_a_consumer_and_by_nothing_else(scene: Scene) -> None:
    scene.consumer("colour = 'red'", credit=0)
    for number in range(20_000):
        scene.queue.append(coloured("blue", number))
    scene.loop.run()
    assert not scene.queue.is_pressed()
    for number in range(MATCHES_MAX):
        scene.queue.append(coloured("red", number))
    scene.loop.run()
    assert scene.queue.is_pressed()


def test_more_matches_than_are_remembered_are_all_delivered_in_order(scene: Scene) -> None:
    red = scene.consumer("colour = 'red'", credit=10)
    blue = scene.consumer("colour = 'blue'", credit=10)
    count = 2 * MATCHES_MAX + 10
    for number in range(count):
        scene.queue.append(coloured("red" if number % 3 else "blue", number))
    scene.loop.run()
    scene.give_back(red.got[3], red.got[5])
    red.credit = blue.credit = count
    scene.queue.mark()
    scene.loop.run()
    wanted = [number for number in range(count) if number % 3]
    got = [entry.message.properties.headers["number"] for entry in red.got]
    assert got == [*wanted[:10], wanted[3], wanted[5], *wanted[10:]]
    assert len(blue.got) == (count + 2) // 3
    assert scene.queue.ready_count == 0


class TestOnDisk:
    """The window is small beside what waits: the rest is in the log only."""

    SIZE = 40_000
    COUNT = 1500  # some 60 MB

    def fill(self, stored: StoredBroker) -> Any:
        queue: Any = new_queue(stored.vhost, durable=True)
        for number in range(self.COUNT):
            colour = "red" if number % 50 == 0 else "blue"
            queue.append(coloured(colour, number, persistent=True, size=self.SIZE))
        stored.loop.run()
        assert queue.low.paged_count > 200
        return queue

    def settle_all(self, stored: StoredBroker) -> None:
        """Until the disk has nothing more for the queue."""
        for _ in range(5):
            stored.wait_until_safe()

    def test_what_is_on_disk_only_is_found_delivered_and_settled(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            with StoredBroker(Path(directory) / "data") as stored:
                queue = self.fill(stored)
                red = Taker(queue, selector="colour = 'red'")
                queue.add_consumer(red)
                self.settle_all(stored)
                expected = [f"red {number}" for number in range(0, self.COUNT, 50)]
                assert names(red) == expected
                assert queue.ready_count == self.COUNT - len(expected)
                for entry in red.got[:-3]:
                    queue.settle(entry)
                queue.remove_consumer(red)
                rest = Taker(queue)
                queue.requeue(red.got[-3:])
                queue.add_consumer(rest)
                self.settle_all(stored)
                gone = set(expected[:-3])
                assert [name for name in names(rest) if name in gone] == []
                numbers = [int(name.split()[1]) for name in names(rest)]
                assert numbers == sorted(numbers)
                assert len(numbers) == self.COUNT - len(gone)
                assert [
                    name for entry, name in zip(rest.got, names(rest), strict=True) if entry.redelivered
                ] == (expected[-3:])
                assert queue.ready_count == 0 and queue.ready_bytes == 0

    def test_what_came_back_to_the_disk_is_offered_again_and_survives(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            stored = StoredBroker(Path(directory) / "data")
            try:
                queue = self.fill(stored)
                red = Taker(queue, selector="colour = 'red'", credit=30)
                queue.add_consumer(red)
                self.settle_all(stored)
                red.credit = 30
                count, size = queue.ready_count, queue.ready_bytes
                back = red.got[20:]
                queue.requeue(back)
                assert queue.ready_count == count + len(back)
                assert queue.ready_bytes == size + sum(len(entry.message.body) for entry in back)
                self.settle_all(stored)
                assert names(red)[30:] == [f"red {number}" for number in range(20 * 50, self.COUNT, 50)]
                assert all(entry.redelivered for entry in red.got[30:])
                for entry in (*red.got[:20], *red.got[30:]):
                    queue.settle(entry)
                self.settle_all(stored)
            finally:
                stored.stop(cleanly=False)
            with StoredBroker(Path(directory) / "data") as again:
                queue = again.vhost.queues["q"]
                assert queue.ready_count == self.COUNT - self.COUNT // 50
