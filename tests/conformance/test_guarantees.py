"""What a client may rely on: visibility, synchronisation, ordering (002, 4.4, 4.6 and 4.7)."""

from collections.abc import Callable

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import Message, RawChannel, RawClient, unique

Connect = Callable[..., RawClient]
ROUNDS = 30

VISIBLE = rule(
    "002",
    "4.4",
    "visibility",
    "What one client has observed (a reply), every other client of the virtual host observes from then on",
)
SYNCHRONISED = rule(
    "002",
    "4.6",
    "content-synchronisation",
    "The effects of a request-response on contents are invisible before the response and visible after it",
)
ORDERED = rule(
    "002",
    "4.7",
    "content-ordering",
    "Contents on one path (channel, exchange, queue, channel) keep their order unless redelivered is set",
)


@pytest.fixture
def pair(connect: Connect) -> tuple[RawChannel, RawChannel]:
    """Channels on two connections."""
    return connect().channel(1), connect().channel(1)


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


# -- 4.4 -----------------------------------------------------------------------------------------------------


@VISIBLE
def test_declared_queue_is_seen_by_others(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    for _ in range(ROUNDS):
        queue = first.declare(unique(), exclusive=False, auto_delete=True)
        second.call(spec.Queue.Declare(queue=queue, passive=True))
        second.call(spec.Queue.Delete(queue=queue))


@VISIBLE
def test_deleted_queue_is_gone_for_others(connect: Connect, pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    for _ in range(ROUNDS):
        queue = first.declare(unique(), exclusive=False)
        first.call(spec.Queue.Delete(queue=queue))
        second.call_fails(spec.Queue.Declare(queue=queue, passive=True), 404)
        second.open()


@VISIBLE
def test_binding_is_seen_by_other_publishers(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    queue = first.declare()
    for number in range(ROUNDS):
        first.bind(queue, "amq.direct", f"{queue}.{number}")
        second.publish(b"x", "amq.direct", f"{queue}.{number}", mandatory=True)
        second.sync()  # and no basic.return before it
    assert first.depth(queue) == ROUNDS


@VISIBLE
def test_removed_binding_is_seen_by_other_publishers(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    queue = first.declare()
    for number in range(ROUNDS):
        first.bind(queue, "amq.direct", f"{queue}.{number}")
        first.call(spec.Queue.Unbind(queue=queue, exchange="amq.direct", routing_key=f"{queue}.{number}"))
        second.publish(b"x", "amq.direct", f"{queue}.{number}", mandatory=True)
        second.returned(reply_code=312)
    assert first.depth(queue) == 0


@VISIBLE
def test_confirmed_message_is_seen_by_others(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    queue = first.declare(unique(), exclusive=False, auto_delete=True)
    first.confirm_select()
    for number in range(ROUNDS):
        first.publish(b"%d" % number, routing_key=queue)
        first.expect(spec.Basic.Ack, delivery_tag=number + 1)
        message = second.get(queue)
        assert message is not None, "a confirmed message is not there"
        assert message.body == b"%d" % number
    first.call(spec.Queue.Delete(queue=queue))


@VISIBLE
def test_consumer_is_seen_by_others(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    queue = first.declare(unique(), exclusive=False)
    for _ in range(ROUNDS):
        tag = first.consume(queue)
        assert second.call(spec.Queue.Declare(queue=queue, passive=True)).consumer_count == 1
        first.cancel(tag)
        assert second.call(spec.Queue.Declare(queue=queue, passive=True)).consumer_count == 0
    first.call(spec.Queue.Delete(queue=queue))


@VISIBLE
def test_exchange_is_seen_by_others(pair: tuple[RawChannel, RawChannel]) -> None:
    first, second = pair
    for _ in range(ROUNDS):
        exchange = unique()
        first.call(spec.Exchange.Declare(exchange=exchange, exchange_type="fanout"))
        second.call(spec.Exchange.Declare(exchange=exchange, passive=True))
        first.call(spec.Exchange.Delete(exchange=exchange))
        second.call_fails(spec.Exchange.Declare(exchange=exchange, passive=True), 404)
        second.open()


# -- 4.6 -----------------------------------------------------------------------------------------------------


@SYNCHRONISED
def test_no_delivery_before_consume_ok(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    queue = channel.declare()
    for _ in range(ROUNDS):
        other.publish(b"x", routing_key=queue)
        other.sync()
        tag = channel.consume(queue, no_ack=True)  # its reply must be the very next frame
        channel.delivery(consumer_tag=tag)
        channel.cancel(tag)


@SYNCHRONISED
def test_no_delivery_after_cancel_ok(connect: Connect) -> None:
    client, publisher = connect(), connect().channel(1)
    channel = client.channel(1)
    queue = channel.declare(unique(), exclusive=False)
    for _ in range(ROUNDS):
        tag = channel.consume(queue, no_ack=True)
        for _ in range(20):
            publisher.publish(b"x", routing_key=queue)
        channel.send(spec.Basic.Cancel(consumer_tag=tag))
        while not isinstance(client.next_frame().value, spec.Basic.CancelOk):
            pass
        publisher.publish(b"late", routing_key=queue)
        publisher.sync()
        channel.sync()  # its reply must be the very next frame
        channel.call(spec.Queue.Purge(queue=queue))
    channel.call(spec.Queue.Delete(queue=queue))


@SYNCHRONISED
def test_no_redelivery_before_recover_ok(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue)
    for number in range(10):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.deliveries(10)
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    messages = channel.deliveries(10)
    assert bodies(messages) == [b"%d" % number for number in range(10)]
    assert all(message.redelivered for message in messages)


@SYNCHRONISED
def test_purged_messages_are_not_delivered_after_purge_ok(channel: RawChannel) -> None:
    queue = channel.declare()
    for _ in range(50):
        channel.publish(b"old", routing_key=queue)
    channel.send(spec.Queue.Purge(queue=queue))
    channel.publish(b"new", routing_key=queue)
    channel.expect(spec.Queue.PurgeOk, message_count=50)
    channel.consume(queue, no_ack=True)
    assert channel.delivery().body == b"new"
    channel.sync()


@SYNCHRONISED
def test_bind_and_unbind_split_the_stream_of_contents(channel: RawChannel) -> None:
    queue, key = channel.declare(), unique()
    channel.publish(b"before", "amq.direct", key)
    channel.send(spec.Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key))
    channel.publish(b"bound", "amq.direct", key)
    channel.send(spec.Queue.Unbind(queue=queue, exchange="amq.direct", routing_key=key))
    channel.publish(b"after", "amq.direct", key)
    channel.expect(spec.Queue.BindOk)
    channel.expect(spec.Queue.UnbindOk)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"bound"
    assert channel.get(queue) is None


# -- 4.7 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.fanout", "amq.topic"])
@ORDERED
def test_contents_keep_their_order(connect: Connect, exchange: str) -> None:
    publisher, consumer = connect().channel(1), connect().channel(1)
    queue = consumer.declare(unique(), exclusive=False, auto_delete=True)
    if exchange:
        consumer.bind(queue, exchange, queue)
    consumer.consume(queue, no_ack=True)
    expected = [b"%d " % number + b"x" * (number * 37 % 5000) for number in range(600)]
    for number, data in enumerate(expected):
        # Persistent and transient messages take the same path and may not overtake each other.
        properties = spec.Basic.Properties(delivery_mode=1 + number % 2)
        publisher.publish(data, exchange, queue, properties=properties)
    messages = consumer.deliveries(len(expected))
    assert bodies(messages) == expected
    assert not any(message.redelivered for message in messages)


@ORDERED
def test_order_with_a_window_and_acknowledgements(connect: Connect) -> None:
    publisher, consumer = connect().channel(1), connect().channel(1)
    queue = consumer.declare(unique(), exclusive=False, auto_delete=True)
    consumer.qos(7)
    consumer.consume(queue)
    for number in range(300):
        publisher.publish(b"%d" % number, routing_key=queue)
    for number in range(300):
        message = consumer.delivery()
        assert message.body == b"%d" % number
        if number % 5 == 4:
            consumer.ack(message.delivery_tag, multiple=True)


@ORDERED
def test_order_of_gets(channel: RawChannel) -> None:
    queue = channel.declare()
    for number in range(100):
        channel.publish(b"%d" % number, routing_key=queue)
    for number in range(100):
        message = channel.get(queue)
        assert message is not None
        assert message.body == b"%d" % number
        assert message.method.message_count == 99 - number


@ORDERED
def test_requeued_messages_return_to_their_place(channel: RawChannel) -> None:
    queue = channel.declare()
    for number in range(6):
        channel.publish(b"%d" % number, routing_key=queue)
    held = [channel.get(queue, no_ack=False) for _ in range(3)]
    assert [message.body for message in held if message] == [b"0", b"1", b"2"]
    channel.send(spec.Basic.Reject(delivery_tag=2, requeue=True))
    channel.send(spec.Basic.Reject(delivery_tag=1, requeue=True))
    channel.sync()
    seen = [channel.get(queue) for _ in range(5)]
    assert [(message.body, message.redelivered) for message in seen if message] == [
        (b"0", True),
        (b"1", True),
        (b"3", False),
        (b"4", False),
        (b"5", False),
    ]


@rule(
    "002", "4.7", "method-ordering", "Methods of a channel are handled in the order in which they were sent"
)
def test_methods_are_handled_in_order(channel: RawChannel) -> None:
    queue = unique()
    for number in range(50):
        channel.send(spec.Queue.Declare(queue=queue, exclusive=True))
        channel.publish(b"%d" % number, routing_key=queue)
        channel.send(spec.Queue.Delete(queue=queue))
    for _ in range(50):
        channel.expect(spec.Queue.DeclareOk, message_count=0)
        channel.expect(spec.Queue.DeleteOk, message_count=1)
