"""basic.get: one message at a time, by asking."""

from collections.abc import Callable
from typing import Any

import pytest
from pamqp import body, header
from pamqp import frame as codec

from tests.conformance.model import drain, fill, no_queue, numbered
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

get = rule("001", "1.8.3.10", "basic.get", "basic.get hands out one message or get-empty")
count = rule(
    "001", "1.8.3.11.5", "basic.get-ok.message-count", "get-ok tells how many messages are left in the queue"
)
acks = rule(
    "001", "1.8.3.11", "basic.get-ok/ack", "A message from get must be acknowledged unless no-ack was set"
)


@get
def test_empty_queue(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.call(spec.Basic.Get(queue=queue), spec.Basic.GetEmpty)


@get
@count
@pytest.mark.parametrize("no_ack", [True, False])
def test_messages_in_order_with_the_count_of_the_rest(channel: RawChannel, no_ack: bool) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    for number in range(3):
        message = channel.get(queue, no_ack)
        assert message is not None
        assert (message.body, message.method.message_count) == (b"message %d" % number, 2 - number)
        assert (message.method.exchange, message.method.routing_key) == ("", queue)
        assert (message.delivery_tag, message.redelivered) == (number + 1, False)
    assert channel.get(queue) is None


@rule("001", "1.8.3.10.2", "basic.get.queue/missing", "basic.get from a missing queue: 404")
def test_missing_queue(channel: RawChannel) -> None:
    name = unique()
    channel.call_fails(spec.Basic.Get(queue=name), 404, no_queue(name))


@acks
def test_unacknowledged_message_comes_back(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(2))
    second = client.channel(2)
    assert second.get(queue, no_ack=False) is not None
    second.close()
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.redelivered) == (b"message 0", True)


@acks
def test_no_ack_message_does_not_come_back(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(2))
    second = client.channel(2)
    assert second.get(queue, no_ack=True) is not None
    second.close()
    assert drain(channel, queue) == [b"message 1"]


@get
def test_get_is_not_limited_by_prefetch(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.qos(1)
    fill(channel, queue, numbered(3))
    assert [channel.get(queue, no_ack=False) is not None for _ in range(4)] == [True, True, True, False]


@get
def test_get_and_consume_share_the_delivery_tags(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(1))
    first = channel.get(queue, no_ack=False)
    channel.consume(queue)
    fill(channel, queue, numbered(1))
    second = channel.delivery()
    assert first is not None
    assert (first.delivery_tag, second.delivery_tag) == (1, 2)


@get
def test_get_beside_an_exclusive_consumer(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    """Exclusive is about consumers; RabbitMQ lets basic.get through, and so do we."""
    queue = channel.declare(exclusive=False, auto_delete=True)
    channel.consume(queue, exclusive=True)
    assert connect().channel().get(queue) is None


@get
@pytest.mark.parametrize(
    ("request_of", "answer"),
    [
        (lambda queue: spec.Basic.Get(queue=queue), spec.Basic.GetEmpty),
        (lambda queue: spec.Queue.Declare(queue=queue, passive=True), spec.Queue.DeclareOk),
        (lambda queue: spec.Queue.Purge(queue=queue), spec.Queue.PurgeOk),
        (lambda queue: spec.Basic.Cancel(consumer_tag="waiting"), spec.Basic.CancelOk),
        (lambda queue: spec.Queue.Delete(queue=queue), spec.Queue.DeleteOk),
    ],
)
def test_what_a_consumer_waits_for_is_the_consumers(
    channel: RawChannel, request_of: Callable[[str], Any], answer: Any
) -> None:
    """Also when the publishing and the look at the queue come in one piece."""
    queue = channel.declare()
    channel.consume(queue, "waiting", no_ack=True)
    content = [
        spec.Basic.Publish(routing_key=queue),
        header.ContentHeader(body_size=5),
        body.ContentBody(b"yours"),
    ]
    frames = [*content, request_of(queue)]
    channel.client.send_bytes(b"".join(codec.marshal(frame, channel.number) for frame in frames))
    for _ in range(2):  # RabbitMQ answers first, and delivers then
        method = channel.client.next_frame().value
        if isinstance(method, spec.Basic.Deliver):
            assert channel.read_content(method).body == b"yours"
        else:
            assert isinstance(method, answer)
            assert getattr(method, "message_count", 0) == 0
