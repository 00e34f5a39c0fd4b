"""A queue against a model: two priority levels, credit, requeueing to the original place, no-local."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from embermq.broker.queue.dispatch import has_ready_consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from tests.support.domain import NO_CONNECTION, Loop, Taker, constant, message, new_queue, new_vhost
from tests.support.settling_rules import SettlingRules

DRAIN_BYTES_MAX = constant("embermq.broker.queue.dispatch", "DRAIN_BYTES_MAX")
PRESSED_BYTES = constant("embermq.broker.queue.classic", "PRESSED_BYTES")
PRESSED_COUNT = constant("embermq.broker.queue.classic", "PRESSED_COUNT")

Place = tuple[int, int]  # level (0 is the high one) and number of arrival: the order of leaving


def place_of(entry: Entry) -> Place:
    high, number = entry.message.body.split(b":")
    return (0 if high == b"high" else 1), int(number)


class QueueModel(SettlingRules):
    """Every message is ready (in order) or out with somebody; nothing is lost or doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = Loop()
        self.queue = new_queue(new_vhost(self.loop))
        self.ready: list[Place] = []
        self.returned: set[Place] = set()
        self.takers: list[Taker] = []
        self.out: list[Entry] = []
        self.arrived = 0

    @rule(count=st.integers(1, 6), priority=st.integers(0, 9))
    def publish(self, count: int, priority: int) -> None:
        for _ in range(count):
            self.arrived += 1
            name = b"high" if priority >= 5 else b"low"
            self.queue.append(message(b"%s:%d" % (name, self.arrived), priority=priority))
            self.ready.append((0 if priority >= 5 else 1, self.arrived))
        self.ready.sort()

    @rule(credit=st.integers(0, 5), no_ack=st.booleans())
    def consume(self, credit: int, no_ack: bool) -> None:
        taker = Taker(self.queue, credit, no_ack)
        self.takers.append(taker)
        self.queue.add_consumer(taker)

    @precondition(lambda self: self.takers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(self.takers))
        self.takers.remove(taker)
        self.queue.remove_consumer(taker)

    @precondition(lambda self: self.takers)
    @rule(data=st.data(), credit=st.integers(1, 4))
    def give_credit(self, data: st.DataObject, credit: int) -> None:
        data.draw(st.sampled_from(self.takers)).credit += credit
        self.queue.mark()

    @rule()
    def turn(self) -> None:
        self.loop.run()
        delivered: list[Place] = []
        for taker in self.takers:
            got = [place_of(entry) for entry in taker.got]
            assert got == sorted(got), "a consumer gets messages in order"
            for entry in taker.got:
                assert bool(entry.redelivered) == (place_of(entry) in self.returned)
            if not taker.no_ack:
                self.out += taker.got
            delivered += got
            taker.got.clear()
        assert sorted(delivered) == self.ready[: len(delivered)], "those at the head leave first"
        del self.ready[: len(delivered)]
        if self.ready:
            assert all(taker.credit == 0 for taker in self.takers), "ready messages wait only for credit"

    @rule()
    def get(self) -> None:
        entry = self.queue.get()
        # Consumers come first at the end of a turn, but nothing has been drained yet: get takes the head.
        if entry is None:
            assert not self.ready
        else:
            assert place_of(entry) == self.ready.pop(0)
            self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        entries = self.some_out(data)
        self.queue.requeue(entries)
        places = [place_of(entry) for entry in entries]
        self.ready = sorted(self.ready + places)
        self.returned |= set(places)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.unacked_count == len(self.out)
        assert self.queue.unacked_bytes == sum(len(entry.message.body) for entry in self.out)
        assert [
            place_of(Entry(m, self.queue.low, 0, False, False)) for m in self.queue.messages()
        ] == self.ready
        assert self.queue.ready_bytes == sum(m.size - m.header_size for m in self.queue.messages())
        assert self.queue.published_count == self.arrived


QueueModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueueModel = QueueModel.TestCase


def filled(loop: Loop, count: int, **more: object) -> Queue:
    queue = new_queue(new_vhost(loop))
    for number in range(count):
        queue.append(message(b"%d" % number, **more))  # type: ignore[arg-type]
    return queue


def test_consumers_take_turns() -> None:
    loop = Loop()
    queue = filled(loop, 9)
    takers = [Taker(queue) for _ in range(3)]
    for taker in takers:
        queue.add_consumer(taker)
    loop.run()
    assert [taker.bodies for taker in takers] == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]


LIMITED: list[dict[str, object]] = [
    {"x-max-length": 1},
    {"x-max-length-bytes": 1},
    {"x-max-length": 0},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length-bytes": 1, "x-overflow": "reject-publish"},
    {"x-message-ttl": 0},
    {"x-max-priority": 5, "x-max-length": 1},
    {"x-single-active-consumer": True, "x-max-length": 1, "x-overflow": "reject-publish"},
]


@pytest.mark.parametrize("arguments", [{}, *LIMITED])
def test_nothing_is_delivered_inside_a_publish(arguments: dict[str, object]) -> None:
    """Nor is time set back, whatever the queue does with messages that nobody takes in this turn."""
    loop = Loop()
    queue = new_queue(new_vhost(loop), arguments=arguments)
    taker = Taker(queue, credit=5)
    queue.add_consumer(taker)
    loop.run()
    for number in range(5):
        now_ms = loop.turn.now_ms
        assert queue.append(message(b"%d" % number)) == 0
        assert loop.turn.now_ms == now_ms
    assert taker.got == []
    loop.run()
    assert taker.bodies == [b"0", b"1", b"2", b"3", b"4"], "a limit is for what piles up"
    assert queue.ready_count == 0


@pytest.mark.parametrize(
    ("arguments", "refused", "left"),
    [
        ({"x-max-length": 2}, [], [b"5", b"6"]),
        ({"x-max-length": 2, "x-overflow": "reject-publish"}, [b"5", b"6"], [b"3", b"4"]),
        ({"x-max-length-bytes": 2, "x-overflow": "reject-publish"}, [b"5", b"6"], [b"3", b"4"]),
        ({"x-message-ttl": 0}, [], []),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_beyond_the_credit_of_consumers_limits_hold(
    arguments: dict[str, object], refused: list[bytes], left: list[bytes], together: bool
) -> None:
    """The same whether messages come in one turn or one after the other."""
    loop = Loop()
    queue = new_queue(new_vhost(loop), arguments=arguments)
    taker = Taker(queue, credit=3)
    queue.add_consumer(taker)
    loop.run()
    turned_away = []
    for number in range(7):
        body = b"%d" % number
        if queue.append(message(body)):
            turned_away.append(body)
        if not together:
            loop.run()
    loop.run()
    assert taker.bodies == [b"0", b"1", b"2"]
    assert turned_away == refused
    assert [ready.body for ready in queue.messages()] == left


def test_what_lives_for_no_time_is_for_this_turn_only() -> None:
    loop = Loop()
    queue = new_queue(new_vhost(loop))
    taker = Taker(queue, credit=2)
    queue.add_consumer(taker)
    fleeting = message(b"fleeting")
    fleeting.ttl_ms = 0
    queue.append(message(b"first"))
    queue.append(fleeting)
    loop.run()
    assert taker.bodies == [b"first", b"fleeting"], "in order"
    queue.requeue([taker.got[1]])
    taker.credit = 1
    loop.run()
    assert (len(taker.got), queue.ready_count) == (2, 0), "given back, it has expired"
    taker.credit = 0
    queue.append(message(b"waits"))
    loop.run()
    late = message(b"late")
    late.ttl_ms = 0
    queue.append(late)
    loop.run()
    taker.credit = 2
    queue.mark()
    loop.run()
    assert taker.bodies[2:] == [b"waits"]


def test_one_turn_hands_out_a_bounded_share() -> None:
    loop = Loop()
    queue = new_queue(new_vhost(loop))
    taker = Taker(queue)
    queue.add_consumer(taker)
    for _ in range(20):
        queue.append(message(bytes(DRAIN_BYTES_MAX // 4)))
    assert queue.drain()
    assert 1 <= len(taker.got) <= 5
    assert loop.run() > 3
    assert len(taker.got) == 20


def test_no_local_messages_are_passed_over_and_others_overtake_them() -> None:
    loop = Loop()
    queue = new_queue(new_vhost(loop))
    ours = Taker(queue, no_local_of=7)
    queue.add_consumer(ours)
    for number, publisher in enumerate([7, 8, 7, 8, 9, 7]):
        queue.append(message(b"%d" % number, publisher=publisher))
    loop.run()
    assert ours.bodies == [b"1", b"3", b"4"]
    others = Taker(queue)
    queue.add_consumer(others)
    loop.run()
    assert others.bodies == [b"0", b"2", b"5"]
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 6)


def test_a_heap_of_messages_nobody_may_have_hides_none_and_lets_the_loop_rest() -> None:
    loop = Loop()
    queue = new_queue(new_vhost(loop))
    taker = Taker(queue, no_local_of=7)
    queue.add_consumer(taker)
    for _ in range(4 * DRAIN_BYTES_MAX // 1024):
        queue.append(message(bytes(1024), publisher=7))
    queue.append(message(b"from elsewhere", publisher=8))
    assert loop.run(passes_max=20) < 20
    assert taker.bodies == [b"from elsewhere"]
    assert queue.ready_count == 4 * DRAIN_BYTES_MAX // 1024


def test_a_no_local_consumer_without_credit_is_not_overtaken() -> None:
    loop = Loop()
    queue = new_queue(new_vhost(loop))
    taker = Taker(queue, credit=1, no_local_of=7)
    queue.add_consumer(taker)
    for number in range(3):
        queue.append(message(b"%d" % number, publisher=8))
    loop.run()
    taker.credit = 5
    queue.mark()
    loop.run()
    assert taker.bodies == [b"0", b"1", b"2"]


def test_whether_a_message_could_leave_at_once() -> None:
    queue = new_queue(new_vhost(Loop()))
    probe = message(publisher=7)
    assert not has_ready_consumer(queue, probe)
    taker = Taker(queue, credit=0)
    queue.add_consumer(taker)
    assert not has_ready_consumer(queue, probe)
    taker.credit = 1
    assert has_ready_consumer(queue, probe)
    taker.no_local_of = 7
    assert not has_ready_consumer(queue, probe)
    taker.no_local_of = NO_CONNECTION
    queue.append(message())
    assert not has_ready_consumer(queue, probe), "another message comes first"


def test_pressure_is_felt_only_before_consumers() -> None:
    queue = filled(Loop(), PRESSED_COUNT + 1)
    assert not queue.is_pressed()
    queue.add_consumer(Taker(queue, credit=0))
    assert queue.is_pressed() and queue.is_pressed(half=True)
    while queue.ready_count > PRESSED_COUNT // 2 + 1:
        queue.get()
    assert not queue.is_pressed() and queue.is_pressed(half=True)
    queue.get()
    assert not queue.is_pressed(half=True)
    queue.append(message(bytes(PRESSED_BYTES)))
    assert queue.is_pressed()


def test_messages_that_return_to_a_deleted_queue_are_gone() -> None:
    loop = Loop()
    queue = filled(loop, 2)
    entry = queue.get()
    assert entry is not None
    assert queue.vhost.delete_queue(queue) == 1
    queue.requeue([entry])
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
