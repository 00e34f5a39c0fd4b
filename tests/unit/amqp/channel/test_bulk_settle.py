"""A client that has many deliveries settles them, gives them back or leaves; others have their turn."""

from __future__ import annotations

import random

import pytest

from embermq.amqp.channel import bulk_settle as settling
from embermq.wire import methods
from tests.support.amqp_conversation import Wire, frames_of, publish

COUNT = 6000  # more than a block of deliveries


def one_pass(wire: Wire) -> None:
    """One turn of the loop, whatever is left after it."""
    scheduled, wire.loop.scheduled[:] = list(wire.loop.scheduled), []
    for action in scheduled:
        action()


def numbers(wire: Wire) -> list[int]:
    """The bodies that were delivered meanwhile."""
    return [int(payload) for kind, _, payload in wire.take() if kind == 3]


class Scene:
    """A client with everything of the queue q, another one beside it; a turn has time for one piece."""

    def __init__(self, count: int = COUNT, **arguments: object) -> None:
        self.greedy = Wire().open()
        self.other = Wire(beside=self.greedy).open()
        self.greedy.loop.turn.incremental_work.share_s = 0.0
        self.greedy.say(methods.QueueDeclare(queue="dead"), channel=1)
        self.greedy.say(methods.QueueDeclare(queue="q", arguments=arguments), channel=1)
        for begin in range(0, count, 500):
            numbers = range(begin, min(begin + 500, count))
            self.other.feed(b"".join(publish("q", b"%d" % number) for number in numbers))
        self.greedy.say(methods.BasicConsume(queue="q", consumer_tag="c"), channel=1)
        assert self.counts == (0, count)

    @property
    def counts(self) -> tuple[int, int]:
        queue = self.greedy.broker.vhosts["/"].queues["q"]
        return queue.ready_count, queue.unacked_count

    def cancel(self) -> None:
        self.greedy.say(methods.BasicCancel("c"), channel=1)

    def begin(self, *said: methods.Method) -> None:
        """Say it, and see that it is not done at once."""
        self.greedy.sent.clear()
        self.greedy.feed(frames_of(said, 1), run=False)
        one_pass(self.greedy)
        assert self.greedy.loop.turn.incremental_work.works

    def fetched(self) -> list[tuple[int, bool]]:
        """All that is ready, as the other client gets it."""
        self.other.sent.clear()
        while self.counts[0]:
            for _ in range(min(self.counts[0], 500)):
                self.other.feed(frames_of([methods.BasicGet(queue="q", no_ack=True)], 1), run=False)
            self.other.feed(b"")
        frames = self.other.take()
        marks = [
            methods.decode_method(payload, 0, len(payload)).redelivered  # type: ignore[attr-defined]
            for kind, _, payload in frames
            if kind == 1
        ]
        return list(zip([int(payload) for kind, _, payload in frames if kind == 3], marks, strict=True))


LEAVING = {
    "channel.close": methods.ChannelClose(200, "", 0, 0),
    "basic.recover": methods.BasicRecover(requeue=True),
    "basic.nack": methods.BasicNack(delivery_tag=0, multiple=True, requeue=True),
}


@pytest.mark.parametrize("how", LEAVING)
def test_others_are_served_before_all_is_given_back(how: str) -> None:
    scene = Scene()
    scene.cancel()
    scene.begin(LEAVING[how])
    scene.other.feed(frames_of([methods.QueueDeclare(queue="q", passive=True)], 1), run=False)
    one_pass(scene.other)
    assert scene.greedy.loop.turn.incremental_work.works, "the other's answer came first"
    assert scene.other.take_methods() == [methods.QueueDeclareOk("q", 0, 0)]
    assert scene.counts == (0, COUNT), "what is not back is still out"
    assert scene.greedy.take() == [], "who gave them back is answered when they are back"
    scene.greedy.loop.run()
    assert scene.counts == (COUNT, 0)
    if how == "channel.close":
        assert scene.greedy.take_methods() == [methods.ChannelCloseOk()]
    assert scene.fetched() == [(number, True) for number in range(COUNT)]


def test_a_connection_that_is_lost_gives_back_in_pieces_too() -> None:
    scene = Scene()
    scene.greedy.connection.lost()
    one_pass(scene.greedy)
    assert scene.greedy.loop.turn.incremental_work.works and scene.counts == (0, COUNT)
    scene.greedy.loop.run()
    assert scene.fetched() == [(number, True) for number in range(COUNT)]


def test_a_consumer_gets_what_it_gave_back_before_what_waits() -> None:
    scene = Scene()
    scene.greedy.say(methods.ChannelFlow(active=False), channel=1)
    scene.other.feed(publish("q", b"%d" % COUNT))
    scene.greedy.say(methods.ChannelFlow(active=True), channel=1)
    scene.greedy.sent.clear()
    half = COUNT // 2
    scene.greedy.feed(frames_of([methods.BasicNack(half, multiple=True, requeue=True)], 1), run=False)
    scene.other.feed(publish("q", b"%d" % (COUNT + 1)), run=False)
    one_pass(scene.greedy)
    assert numbers(scene.greedy) == [], "not while some are on their way"
    scene.greedy.loop.run()
    assert numbers(scene.greedy) == [*range(half), COUNT + 1]


def test_a_range_over_blocks_is_acked_and_what_is_in_it_is_known_no_more() -> None:
    scene = Scene(10_000)
    scene.begin(methods.BasicAck(9000, multiple=True))
    scene.greedy.loop.run()
    assert scene.counts == (0, 1000)
    scene.greedy.say(methods.BasicAck(9002, multiple=False), channel=1)
    assert scene.counts == (0, 999)
    closed = scene.greedy.say(methods.BasicAck(4500, multiple=False), channel=1)
    assert isinstance(closed[0], methods.ChannelClose) and closed[0].reply_code == 406
    assert closed[0].reply_text == "PRECONDITION_FAILED - unknown delivery tag 4500"
    assert scene.counts == (999, 0)


@pytest.mark.parametrize("tag", [COUNT + 1, 3])
def test_a_tag_that_stands_for_nothing_is_refused(tag: int) -> None:
    scene = Scene()
    for delivered in range(1, 5):
        scene.greedy.say(methods.BasicAck(delivered, multiple=False), channel=1)
    closed = scene.greedy.say(methods.BasicAck(tag, multiple=True), channel=1)
    assert isinstance(closed[0], methods.ChannelClose)
    assert closed[0].reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_a_range_of_which_nothing_is_left_is_refused_in_a_block_as_well() -> None:
    scene = Scene()
    end = scene.greedy.connection.channels[1].older_ends[0]
    for tag in range(end - 5, end + 1):
        scene.greedy.say(methods.BasicAck(tag), channel=1)
    scene.greedy.say(methods.BasicAck(end - 6, multiple=True), channel=1)  # the last of its block
    assert scene.counts == (0, COUNT - end)
    closed = scene.greedy.say(methods.BasicAck(end, multiple=True), channel=1)
    assert isinstance(closed[0], methods.ChannelClose)
    assert closed[0].reply_text == f"PRECONDITION_FAILED - unknown delivery tag {end}"
    assert scene.counts == (COUNT - end, 0)


def test_many_channels_that_end_together_give_back_in_pieces_what_is_little_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "GIVEN_BACK_PER_TURN_MAX", 100)
    greedy = Wire().open()
    other = Wire(beside=greedy).open()
    greedy.loop.turn.incremental_work.share_s = 0.0
    greedy.say(methods.QueueDeclare(queue="q"), channel=1)
    for number in range(400):
        other.feed(publish("q", b"%d" % number), run=number % 100 == 99)
    for channel in range(2, 12):
        greedy.say(methods.ChannelOpen(), channel=channel)
        greedy.say(methods.BasicQos(prefetch_count=40), channel=channel)
        greedy.say(methods.BasicConsume(queue="q"), channel=channel)
    queue = greedy.broker.vhosts["/"].queues["q"]
    assert queue.unacked_count == 400
    greedy.connection.lost()
    assert len(greedy.loop.turn.incremental_work.works) == 1
    assert (queue.ready_count, queue.unacked_count) == (0, 400)
    greedy.loop.run()
    assert (queue.ready_count, queue.unacked_count) == (400, 0)
    assert [int(found.body) for found in queue.messages()] == list(range(400))


def test_single_acks_find_the_old_and_the_new() -> None:
    scene = Scene()
    for tag in (*range(1, COUNT, 2), *range(COUNT, 0, -2)):
        scene.greedy.feed(frames_of([methods.BasicAck(tag)], 1), run=False)
    scene.greedy.feed(b"")
    assert scene.counts == (0, 0)
    assert scene.greedy.connection.channels[1].unacked_count == 0
    assert scene.greedy.connection.channels[1].older == []


def test_letters_are_all_there_before_the_next_command_is_heard() -> None:
    scene = Scene(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    scene.begin(
        methods.BasicNack(5000, multiple=True, requeue=False),
        methods.QueueDeclare(queue="dead", passive=True),
    )
    assert 0 < scene.counts[1] < COUNT
    scene.greedy.feed(b"")
    assert scene.greedy.take_methods() == [methods.QueueDeclareOk("dead", 5000, 0)]
    assert scene.counts == (0, COUNT - 5000)


class TestTransactions:
    def scene(self) -> Scene:
        scene = Scene()
        scene.greedy.say(methods.TxSelect(), channel=1)
        return scene

    def test_a_large_commit_is_answered_when_all_is_done(self) -> None:
        scene = self.scene()
        for number in range(1500):
            scene.greedy.feed(publish("dead", b"%d" % number), run=number % 500 == 0)
        scene.greedy.say(
            methods.BasicAck(5000, multiple=True),
            methods.BasicNack(5500, multiple=True, requeue=False),
            channel=1,
        )
        scene.cancel()
        scene.greedy.say(methods.BasicNack(0, multiple=True, requeue=True), channel=1)
        assert scene.counts == (0, COUNT)
        scene.begin(methods.TxCommit())
        assert scene.greedy.take() == []
        scene.greedy.loop.run()
        assert scene.greedy.take_methods() == [methods.TxCommitOk()]
        assert scene.counts == (500, 0)
        assert scene.fetched() == [(number, True) for number in range(5500, COUNT)]
        assert scene.greedy.broker.vhosts["/"].queues["dead"].ready_count == 1500

    def test_a_large_rollback_leaves_everything_as_it_was(self) -> None:
        scene = self.scene()
        scene.greedy.say(methods.BasicAck(5900), channel=1)
        scene.greedy.say(
            methods.BasicAck(4500, multiple=True), methods.BasicNack(5500, multiple=True), channel=1
        )
        scene.begin(methods.TxRollback())
        scene.greedy.loop.run()
        assert scene.greedy.take_methods() == [methods.TxRollbackOk()]
        channel = scene.greedy.connection.channels[1]
        assert [entry.delivery_tag for entry in channel.outstanding()] == list(range(1, COUNT + 1))
        scene.greedy.say(methods.BasicAck(5999, multiple=True), methods.TxCommit(), channel=1)
        assert scene.counts == (0, 1)

    def test_what_was_settled_one_by_one_in_any_order_is_held_again_in_the_order_of_tags(self) -> None:
        scene = self.scene()
        tags = list(range(1, COUNT + 1))
        random.Random(1).shuffle(tags)
        for tag in tags:
            said = methods.BasicAck(tag) if tag % 3 else methods.BasicReject(tag, requeue=tag % 2 == 0)
            scene.greedy.feed(frames_of([said], 1), run=False)
        scene.begin(methods.TxRollback())
        scene.greedy.loop.run()
        channel = scene.greedy.connection.channels[1]
        assert [entry.delivery_tag for entry in channel.outstanding()] == list(range(1, COUNT + 1))

    def test_rejects_take_effect_in_their_order(self) -> None:
        scene = self.scene()
        scene.cancel()
        for tag in range(1, 4001):
            scene.greedy.feed(frames_of([methods.BasicReject(tag, requeue=tag > 1000)], 1), run=False)
        scene.begin(methods.TxCommit())
        scene.greedy.loop.run()
        assert scene.counts == (3000, COUNT - 4000)
        assert scene.fetched() == [(number, True) for number in range(1000, 4000)]

    def test_a_connection_that_is_lost_in_a_rollback_gives_all_back(self) -> None:
        scene = self.scene()
        scene.greedy.say(methods.BasicAck(4500, multiple=True), channel=1)
        scene.begin(methods.TxRollback())
        scene.greedy.connection.lost()
        scene.greedy.loop.run()
        assert scene.fetched() == [(number, True) for number in range(COUNT)]
