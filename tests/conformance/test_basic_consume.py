"""basic.consume and basic.cancel: tags, exclusive and no-local consumers, fair shares."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.model import drain, eventually, fill, no_queue, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

tags = rule(
    "001", "1.8.3.3.3", "basic.consume.consumer-tag", "An empty tag makes the server choose a unique one"
)
local_tags = rule("001", "1.1", "consumer-tag/local", "Consumer tags are valid within their channel only")
exclusive = rule(
    "001", "1.8.3.3.6", "basic.consume.exclusive", "An exclusive consumer is the only one: others get 403"
)
cancel = rule("001", "1.8.3.5", "basic.cancel", "After cancel-ok the server sends the consumer nothing more")
no_local = rule(
    "001", "1.1", "no-local", "A no-local consumer gets no messages published by its own connection"
)
shares = rule(
    "002", "3.1.4", "queue/one-consumer", "A message of a queue goes to one of its consumers, in turns"
)
no_local_missing = rabbitmq_differs("ignores no-local")


@pytest.fixture
def queue(channel: RawChannel) -> str:
    return channel.declare(unique("queue"), exclusive=False, auto_delete=True)


@rule("001", "1.8.3.3", "basic.consume/minimum", "At least 16 consumers per queue", "SHOULD")
def test_many_consumers(channel: RawChannel, queue: str) -> None:
    started = [channel.consume(queue, no_ack=True) for _ in range(64)]
    fill(channel, queue, numbered(64))
    served = Counter(message.method.consumer_tag for message in channel.deliveries(64))
    assert served == dict.fromkeys(started, 1)


@tags
def test_server_chosen_tags(client: RawClient, channel: RawChannel, queue: str) -> None:
    second = client.channel(2)
    chosen = [side.consume(queue) for side in (channel, second) for _ in range(5)]
    assert len(set(chosen)) == 10
    assert all(tag.startswith("amq.ctag-") for tag in chosen), (
        "the prefix by which RabbitMQ's users know them"
    )


@tags
def test_client_chosen_tag_marks_the_deliveries(channel: RawChannel, queue: str) -> None:
    assert channel.consume(queue, "mine", no_ack=True) == "mine"
    fill(channel, queue, [b"x"])
    channel.delivery(consumer_tag="mine", redelivered=False, exchange="", routing_key=queue)


@rule(
    "001",
    "1.8.3.3.3",
    "basic.consume.consumer-tag/reuse",
    "A tag of an existing consumer: connection exception 530",
)
def test_tag_in_use(client: RawClient, channel: RawChannel, queue: str) -> None:
    channel.consume(queue, "mine")
    channel.send(spec.Basic.Consume(queue=queue, consumer_tag="mine"))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
    client.expect_close_and_eof(530, text, spec.Basic.Consume)


@local_tags
def test_same_tag_on_other_channels(
    connect: Callable[..., RawClient], client: RawClient, channel: RawChannel, queue: str
) -> None:
    sides = [channel, client.channel(2), connect().channel()]
    for side in sides:
        side.consume(queue, "same", no_ack=True)
    sides[1].cancel("same")
    fill(channel, queue, numbered(2))
    assert {sides[0].delivery().body, sides[2].delivery().body} == set(numbered(2))


@local_tags
def test_cancelled_tag_can_be_used_again(channel: RawChannel, queue: str) -> None:
    keeper = channel.consume(queue, "keeps the queue")
    for _ in range(3):
        channel.consume(queue, "mine")
        channel.cancel("mine")
    channel.cancel(keeper)


@rule("001", "1.8.3.3.2", "basic.consume.queue/missing", "Consuming from a missing queue: 404")
@pytest.mark.parametrize("no_wait", [False, True])
def test_missing_queue(channel: RawChannel, no_wait: bool) -> None:
    name = unique()
    channel.call_fails(spec.Basic.Consume(queue=name, nowait=no_wait), 404, no_queue(name))


@rule("001", "1.1", "no-wait/basic.consume", "With no-wait basic.consume has no reply, deliveries just start")
def test_consume_without_waiting(channel: RawChannel, queue: str) -> None:
    fill(channel, queue, [b"x"])
    channel.send(spec.Basic.Consume(queue=queue, consumer_tag="mine", no_ack=True, nowait=True))
    channel.delivery(consumer_tag="mine")


@exclusive
def test_exclusive_consumer_beside_another(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str
) -> None:
    channel.consume(queue)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    connect().channel().call_fails(spec.Basic.Consume(queue=queue, exclusive=True), 403, text)


@exclusive
def test_another_consumer_beside_the_exclusive_one(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str
) -> None:
    tag = channel.consume(queue, exclusive=True)
    other = connect().channel()
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    for flag in (False, True):
        other.call_fails(spec.Basic.Consume(queue=queue, exclusive=flag), 403, text)
        other.open()
    fill(other, queue, [b"x"])
    assert channel.delivery().body == b"x"
    channel.consume(channel.declare(), "elsewhere")
    channel.cancel(tag)


@exclusive
def test_exclusive_consumption_can_follow_on_another(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    tag = channel.consume(queue, exclusive=True)
    channel.cancel(tag)
    client.channel(2).consume(queue, exclusive=True)


@cancel
def test_nothing_is_delivered_after_cancel_ok(channel: RawChannel) -> None:
    queue = channel.declare()
    tag = channel.consume(queue, no_ack=True)
    fill(channel, queue, numbered(3))
    channel.deliveries(3)
    channel.cancel(tag)
    fill(channel, queue, numbered(2))
    assert drain(channel, queue) == numbered(2)


@cancel
@rule("002", "4.6", "synchronisation/cancel", "Deliveries stop at cancel-ok, even in full flow")
def test_cancel_in_full_flow(channel: RawChannel) -> None:
    queue, bodies = channel.declare(), numbered(2000)
    fill(channel, queue, bodies)
    tag = channel.consume(queue, no_ack=True)
    channel.send(spec.Basic.Cancel(consumer_tag=tag))
    received = []
    while isinstance(method := channel.client.next_frame().value, spec.Basic.Deliver):
        received.append(channel.read_content(method).body)
    assert isinstance(method, spec.Basic.CancelOk)
    # What was not delivered before cancel-ok is still in the queue, in order.
    assert received + drain(channel, queue) == bodies


@rule(
    "001",
    "1.8.3.5",
    "basic.cancel/delivered",
    "Cancelling leaves what was delivered: it can still be acknowledged",
)
def test_messages_outlive_their_consumer(channel: RawChannel) -> None:
    queue = channel.declare()
    tag = channel.consume(queue)
    fill(channel, queue, numbered(3))
    deliveries = channel.deliveries(3)
    channel.cancel(tag)
    channel.ack(deliveries[0].delivery_tag)
    channel.send(spec.Basic.Reject(delivery_tag=deliveries[1].delivery_tag, requeue=True))
    assert drain(channel, queue) == [b"message 1"]
    channel.ack(deliveries[2].delivery_tag)
    round_trip(channel)


@rule("004", "basic.cancel", "basic.cancel/unknown", "Cancelling an unknown tag is answered with cancel-ok")
def test_unknown_tag(client: RawClient, channel: RawChannel, queue: str) -> None:
    channel.call(spec.Basic.Cancel(consumer_tag="unknown"), consumer_tag="unknown")
    channel.consume(queue, "mine", no_ack=True)
    # A tag of another channel is unknown, too, and its consumer goes on.
    client.channel(2).call(spec.Basic.Cancel(consumer_tag="mine"), consumer_tag="mine")
    fill(channel, queue, [b"x"])
    channel.delivery(consumer_tag="mine")


@rule("001", "1.1", "no-wait/basic.cancel", "With no-wait basic.cancel has no reply, but the work is done")
def test_cancel_without_waiting(channel: RawChannel) -> None:
    queue = channel.declare()
    tag = channel.consume(queue, no_ack=True)
    channel.send(spec.Basic.Cancel(consumer_tag=tag, nowait=True))
    fill(channel, queue, [b"x"])
    assert drain(channel, queue) == [b"x"]


@no_local
@no_local_missing
def test_no_local_consumer_gets_others_messages_only(
    connect: Callable[..., RawClient], client: RawClient, channel: RawChannel, queue: str
) -> None:
    channel.consume(queue, no_ack=True, no_local=True)
    client.channel(2).publish(b"own connection, other channel", routing_key=queue)
    channel.publish(b"own channel", routing_key=queue)
    connect().channel().publish(b"foreign", routing_key=queue)
    assert channel.delivery().body == b"foreign"
    channel.client.expect_silence()


@no_local
@no_local_missing
def test_messages_spared_by_no_local_reach_other_consumers(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str
) -> None:
    channel.consume(queue, no_ack=True, no_local=True)
    other = connect().channel()
    other.consume(queue, no_ack=True)
    fill(channel, queue, numbered(10))
    assert [message.body for message in other.deliveries(10)] == numbered(10)
    channel.client.expect_silence()


@no_local
@no_local_missing
def test_messages_spared_by_no_local_keep_their_order(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str
) -> None:
    other = connect().channel()
    channel.consume(queue, no_ack=True, no_local=True)
    for number, body in enumerate(numbered(10)):
        if number % 3:
            fill(channel, queue, [body])
        else:
            fill(other, queue, [body])
            assert channel.delivery().body == body
    other.consume(queue, no_ack=True)
    spared = [body for number, body in enumerate(numbered(10)) if number % 3]
    assert [message.body for message in other.deliveries(6)] == spared


@shares
@pytest.mark.parametrize("no_ack", [True, False])
def test_round_robin(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str, no_ack: bool
) -> None:
    sides = [connect().channel() for _ in range(3)]
    for side in sides:
        side.consume(queue, no_ack=no_ack)
    fill(channel, queue, numbered(30))
    received = [message.body for side in sides for message in side.deliveries(10)]
    assert sorted(received) == sorted(numbered(30)), "each message once, ten for each"
    for side in sides:
        side.client.expect_silence(0.05)


@shares
def test_round_robin_skips_consumers_without_credit(
    connect: Callable[..., RawClient], channel: RawChannel, queue: str
) -> None:
    busy, free = connect().channel(), connect().channel()
    busy.qos(1)
    busy.consume(queue)
    free.consume(queue, no_ack=True)
    fill(channel, queue, numbered(20))
    kept = busy.delivery()
    assert len({message.body for message in free.deliveries(19)} | {kept.body}) == 20


@shares
@rule("002", "3.1.6", "consumer/channel", "A consumer belongs to one channel and ends with it")
def test_consumers_end_with_their_channel(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    second = client.channel(2)
    second.consume(queue, no_ack=True)
    second.close()
    passively = spec.Queue.Declare(queue=queue, passive=True)
    assert eventually(lambda: channel.call(passively).consumer_count == 0)
    fill(channel, queue, [b"x"])
    assert drain(channel, queue) == [b"x"]
