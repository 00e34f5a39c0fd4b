"""Channels and connections with very much end in pieces; who asked for it is answered when all is done."""

from __future__ import annotations

import pytest

from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from embermq.wire import methods
from tests.support.amqp_conversation import Wire, frames_of, publish

CONSUMERS = 200  # more than leave at once
QUEUES = 50
BINDINGS = 200
CLOSE = methods.ConnectionClose(200, "bye", 0, 0)


class Scene:
    """Two clients; a turn has time for one piece."""

    def __init__(self) -> None:
        self.leaving = Wire().open()
        self.other = Wire(beside=self.leaving).open()
        self.leaving.loop.turn.incremental_work.share_s = 0.0

    @property
    def vhost(self) -> VirtualHost:
        return self.leaving.broker.vhosts["/"]

    @property
    def is_under_way(self) -> bool:
        return bool(self.leaving.loop.turn.incremental_work.works)

    def declare(self, name: str, **more: bool) -> Queue:
        self.leaving.say(methods.QueueDeclare(queue=name, **more), channel=1)  # type: ignore[arg-type]
        return self.vhost.queues[name]

    def consume(self, queue: str) -> None:
        for number in range(CONSUMERS):
            self.leaving.say(methods.BasicConsume(queue=queue, consumer_tag=str(number)), channel=1)

    def begin(self, method: methods.Method, channel: int) -> None:
        """Say it, and see that it is not done at once."""
        self.leaving.sent.clear()
        self.leaving.feed(frames_of([method], channel), run=False)
        assert self.is_under_way
        assert self.leaving.take() == []


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_channel_with_many_consumers(scene: Scene) -> None:
    queue = scene.declare("q")
    scene.consume("q")
    scene.begin(methods.ChannelClose(200, "", 0, 0), channel=1)
    assert not queue.consumers, "nobody has to step over them"
    scene.other.say(methods.BasicConsume(queue="q", consumer_tag="other"), channel=1)
    scene.leaving.loop.run()
    assert scene.leaving.take_methods() == [methods.ChannelCloseOk()]
    assert [consumer.tag for consumer in queue.consumers] == ["other"]


def test_the_last_of_many_consumers_takes_an_auto_delete_queue_with_it(scene: Scene) -> None:
    queue = scene.declare("q", auto_delete=True)
    scene.consume("q")
    scene.begin(CLOSE, channel=0)
    assert queue.deleted, "what is left to do for them keeps it no longer"
    scene.leaving.loop.run()
    assert scene.leaving.take_methods() == [methods.ConnectionCloseOk()]


def test_messages_go_to_others_and_not_to_consumers_that_are_about_to_leave(scene: Scene) -> None:
    scene.declare("q")
    scene.consume("q")
    scene.other.say(methods.BasicConsume(queue="q", consumer_tag="other", no_ack=True), channel=1)
    scene.leaving.connection.lost()
    assert scene.is_under_way
    scene.other.feed(publish("q", b"now"), run=False)
    scene.leaving.loop.run()
    assert [payload for kind, _, payload in scene.other.take() if kind == 3] == [b"now"]


def test_who_comes_to_a_queue_while_messages_return_to_it_waits_for_them(scene: Scene) -> None:
    """An exclusive consumer that is as good as gone keeps nobody out, and what was sent first comes first."""
    count = 3000
    queue = scene.declare("q")
    for number in range(count + 1):
        scene.other.feed(publish("q", b"%d" % number), run=number % 500 == 0)
    scene.leaving.say(methods.BasicQos(prefetch_count=count), channel=1)
    consume = methods.BasicConsume(queue="q", consumer_tag="c", exclusive=True)
    scene.leaving.say(consume, channel=1)
    assert (queue.unacked_count, queue.ready_count) == (count, 1)
    scene.leaving.connection.lost()
    assert scene.is_under_way and scene.vhost.leaving == {queue: 1}
    scene.other.feed(frames_of([consume], 1), run=False)
    assert not queue.consumers and scene.other.connection.pauses
    while scene.other.connection.pauses:
        scene.other.feed(b"")
    frames = scene.other.take()
    assert [int(payload) for kind, _, payload in frames if kind == 3] == list(range(count + 1))
    assert not scene.vhost.leaving


def test_who_gets_from_a_queue_while_messages_return_to_it_gets_the_first_of_them(scene: Scene) -> None:
    count = 3000
    queue = scene.declare("q")
    for number in range(count):
        scene.other.feed(publish("q", b"%d" % number), run=number % 500 == 0)
    scene.leaving.say(methods.BasicConsume(queue="q", consumer_tag="c"), channel=1)
    assert (queue.unacked_count, queue.ready_count) == (count, 0)
    scene.leaving.connection.lost()
    assert scene.is_under_way
    scene.other.feed(frames_of([methods.BasicGet(queue="q", no_ack=True)], 1), run=False)
    while scene.other.connection.pauses:
        scene.other.feed(b"")
    method, _, body = scene.other.take()
    assert methods.decode_method(method[2], 0, len(method[2])) == methods.BasicGetOk(
        1, True, "", "q", count - 1
    )
    assert body[2] == b"0"


def test_who_declares_a_queue_anew_that_goes_with_its_last_consumer_gets_another(scene: Scene) -> None:
    queue = scene.declare("q", auto_delete=True)
    for number in range(3000):
        scene.other.feed(publish("q", b"%d" % number), run=number % 500 == 0)
    scene.leaving.say(methods.BasicConsume(queue="q", consumer_tag="c"), channel=1)
    scene.leaving.connection.lost()
    assert scene.is_under_way
    scene.other.feed(frames_of([methods.QueueDeclare(queue="q", auto_delete=True)], 1), run=False)
    while scene.other.connection.pauses:
        scene.other.feed(b"")
    assert scene.other.take_methods() == [methods.QueueDeclareOk("q", 0, 0)]
    assert queue.deleted and not scene.vhost.queues["q"].deleted


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_who_takes_a_name_again_waits_until_the_bindings_of_the_last_one_are_gone(
    scene: Scene, what: str
) -> None:
    scene.declare("q")
    scene.leaving.say(methods.ExchangeDeclare(exchange="x", type="direct"), channel=1)
    for number in range(BINDINGS):
        scene.leaving.say(methods.QueueBind(queue="q", exchange="x", routing_key=str(number)), channel=1)
    deletion = methods.QueueDelete(queue="q") if what == "queue" else methods.ExchangeDelete(exchange="x")
    scene.begin(deletion, channel=1)
    declaration = (
        methods.QueueDeclare(queue="q")
        if what == "queue"
        else methods.ExchangeDeclare(exchange="x", type="topic")
    )
    scene.other.feed(frames_of([declaration], 1), run=False)
    assert scene.is_under_way and scene.other.connection.pauses
    while scene.other.connection.pauses:
        scene.other.feed(b"")
    answer = methods.QueueDeclareOk("q", 0, 0) if what == "queue" else methods.ExchangeDeclareOk()
    assert scene.other.take_methods() == [answer]
    assert not any(scene.vhost.queue_bindings.values())


def test_exclusive_queues_are_gone_when_the_client_is_told_so(scene: Scene) -> None:
    for number in range(QUEUES):
        scene.declare(f"mine-{number}", exclusive=True)
    scene.begin(CLOSE, channel=0)
    assert 0 < len(scene.vhost.queues) < QUEUES
    scene.leaving.loop.run()
    assert scene.leaving.take_methods() == [methods.ConnectionCloseOk()]
    assert not scene.vhost.queues and not scene.vhost.ending


def test_an_exclusive_queue_that_went_before_its_connection_is_not_remembered(scene: Scene) -> None:
    scene.declare("mine", exclusive=True, auto_delete=True)
    consume, cancel = methods.BasicConsume(queue="mine", consumer_tag="c"), methods.BasicCancel("c")
    scene.leaving.say(consume, cancel, channel=1)
    assert not scene.vhost.queues
    scene.leaving.connection.lost()
    assert not scene.vhost.ending


@pytest.mark.parametrize("passive", [False, True])
def test_who_asks_for_an_exclusive_queue_that_is_about_to_go_does_not_find_it(
    scene: Scene, passive: bool
) -> None:
    names = [f"mine-{number}" for number in range(QUEUES)]
    for name in names:
        scene.declare(name, exclusive=True)
    scene.leaving.connection.lost()
    left = next(name for name in names if name in scene.vhost.queues)
    scene.other.feed(
        frames_of([methods.QueueDeclare(queue=left, exclusive=not passive, passive=passive)], 1), run=False
    )
    assert scene.is_under_way
    scene.leaving.loop.run()
    (answer,) = scene.other.take_methods()
    if passive:
        assert isinstance(answer, methods.ChannelClose) and answer.reply_code == 404
        assert not scene.vhost.queues
    else:
        assert answer == methods.QueueDeclareOk(left, 0, 0)
        assert scene.vhost.queues[left].owner is scene.other.connection


def test_a_connection_that_is_as_good_as_gone_counts_no_more(scene: Scene) -> None:
    """Its client may be back at once, where as many are allowed as there were. The world hears of it last."""
    for number in range(QUEUES):
        scene.declare(f"mine-{number}", exclusive=True)
    told: list[str] = []
    scene.leaving.broker.events.listen(lambda event: told.append(f"{event.actor} {event.key}"))
    guest = scene.leaving.broker.users["guest"]  # who is in other tests, too
    count = guest.connection_count
    scene.begin(CLOSE, channel=0)
    assert (scene.vhost.connection_count, guest.connection_count) == (1, count - 1)
    scene.leaving.loop.run()
    assert (scene.vhost.connection_count, guest.connection_count) == (1, count - 1)
    assert told == ["guest channel.closed", *["guest queue.deleted"] * QUEUES, "guest connection.closed"]


def test_queues_that_are_as_good_as_gone_count_no_more(scene: Scene) -> None:
    scene.vhost.limits["max-queues"] = QUEUES
    for number in range(QUEUES):
        scene.declare(f"mine-{number}", exclusive=True)
    scene.leaving.connection.lost()
    assert scene.is_under_way
    for number in range(QUEUES + 1):
        scene.other.feed(frames_of([methods.QueueDeclare(queue=f"other-{number}")], 1), run=False)
    assert scene.vhost.ending
    scene.leaving.loop.run()
    *declared, refused = scene.other.take_methods()
    assert declared == [methods.QueueDeclareOk(f"other-{number}", 0, 0) for number in range(QUEUES)]
    assert isinstance(refused, methods.ChannelClose) and refused.reply_code == 406


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_a_deletion_is_answered_when_the_last_binding_is_gone(scene: Scene, what: str) -> None:
    scene.declare("q")
    scene.leaving.say(methods.ExchangeDeclare(exchange="x", type="direct"), channel=1)
    for number in range(BINDINGS):
        scene.leaving.say(methods.QueueBind(queue="q", exchange="x", routing_key=str(number)), channel=1)
    deletion = methods.QueueDelete(queue="q") if what == "queue" else methods.ExchangeDelete(exchange="x")
    scene.begin(deletion, channel=1)
    assert any(scene.vhost.queue_bindings.values())
    scene.leaving.loop.run()
    answer = methods.QueueDeleteOk(0) if what == "queue" else methods.ExchangeDeleteOk()
    assert scene.leaving.take_methods() == [answer]
    assert not any(scene.vhost.queue_bindings.values())


class TestRecover:
    COUNT = 3000

    def deliver(self, scene: Scene) -> None:
        scene.declare("q")
        for number in range(self.COUNT):
            scene.other.feed(publish("q", b"%d" % number), run=number % 500 == 0)
        scene.leaving.say(methods.BasicConsume(queue="q", consumer_tag="c"), channel=1)
        scene.leaving.sent.clear()

    def recover(self, scene: Scene) -> None:
        """Say so, and see that it is not done at once."""
        scene.leaving.feed(frames_of([methods.BasicRecover(requeue=False)], 1), run=False)
        assert self.is_under_way(scene)

    def is_under_way(self, scene: Scene) -> bool:
        return scene.leaving.connection.channels[1].redelivery is not None

    def bodies(self, scene: Scene) -> list[int]:
        return [int(payload) for kind, _, payload in scene.leaving.take() if kind == 3]

    def test_many_come_again_before_what_is_new(self, scene: Scene) -> None:
        self.deliver(scene)
        self.recover(scene)
        scene.other.feed(publish("q", b"%d" % self.COUNT), run=False)
        scene.leaving.loop.run()
        frames = scene.leaving.take()
        assert [int(payload) for kind, _, payload in frames if kind == 3] == list(range(self.COUNT + 1))
        said = [methods.decode_method(payload, 0, len(payload)) for kind, _, payload in frames if kind == 1]
        assert said[0] == methods.BasicRecoverOk()
        tags = [method.delivery_tag for method in said if isinstance(method, methods.BasicDeliver)]
        assert tags == list(range(self.COUNT + 1, 2 * self.COUNT + 2))
        marks = [method.redelivered for method in said if isinstance(method, methods.BasicDeliver)]
        assert marks == [True] * self.COUNT + [False]

    def test_no_more_is_put_together_than_the_client_reads(self, scene: Scene) -> None:
        self.deliver(scene)
        self.recover(scene)
        scene.leaving.connection.pause_writing()
        scene.leaving.loop.run()
        found = self.bodies(scene)
        assert len(found) < self.COUNT and self.is_under_way(scene)
        flow = scene.leaving.say(methods.ChannelFlow(active=False), channel=1)
        assert flow == [methods.ChannelFlowOk(active=False)], "it is heard meanwhile"
        scene.leaving.say(methods.BasicAck(self.COUNT + len(found), multiple=True), channel=1)
        scene.leaving.connection.resume_writing()
        scene.leaving.loop.run()
        found += self.bodies(scene)
        scene.other.feed(publish("q", b"new"))
        assert found == list(range(self.COUNT)) and not self.is_under_way(scene)
        assert scene.leaving.take() == [], "it has asked for a pause"
        scene.leaving.feed(frames_of([methods.ChannelFlow(active=True)], 1))
        assert [payload for kind, _, payload in scene.leaving.take() if kind == 3] == [b"new"]

    @pytest.mark.parametrize("requeue", [False, True])
    def test_again_in_the_middle(self, scene: Scene, requeue: bool) -> None:
        self.deliver(scene)
        self.recover(scene)
        scene.leaving.sent.clear()
        scene.leaving.feed(frames_of([methods.BasicRecover(requeue=requeue)], 1))
        scene.leaving.loop.run()
        channel = scene.leaving.connection.channels[1]
        assert not self.is_under_way(scene) and channel.flow_active
        assert (channel.unacked_count, scene.vhost.queues["q"].ready_count) == (self.COUNT, 0)
        assert [int(entry.message.body) for entry in channel.outstanding()] == list(range(self.COUNT))
        assert sum(consumer.unacked for consumer in channel.consumers.values()) == self.COUNT

    def test_what_is_given_back_in_the_middle(self, scene: Scene) -> None:
        """Both take long, and each has the channel pause for its own time."""
        self.deliver(scene)
        self.recover(scene)
        scene.leaving.connection.pause_writing()
        scene.leaving.loop.run()
        scene.leaving.loop.turn.copies = 10**6  # so much else goes back in this turn that this goes in pieces
        nack = methods.BasicNack(self.COUNT + 1, multiple=False, requeue=True)
        scene.leaving.feed(frames_of([nack], 1), run=False)
        scene.leaving.connection.resume_writing()
        scene.leaving.loop.run()
        channel = scene.leaving.connection.channels[1]
        assert not self.is_under_way(scene) and channel.flow_active
        assert (channel.unacked_count, scene.vhost.queues["q"].ready_count) == (self.COUNT, 0)

    def test_all_go_back_when_the_connection_is_lost_in_the_middle(self, scene: Scene) -> None:
        self.deliver(scene)
        self.recover(scene)
        scene.leaving.connection.lost()
        scene.leaving.loop.run()
        queue = scene.vhost.queues["q"]
        assert (queue.ready_count, queue.unacked_count) == (self.COUNT, 0)
        assert [int(found.body) for found in queue.messages()] == list(range(self.COUNT))
