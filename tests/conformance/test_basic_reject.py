"""basic.reject and basic.nack: back to where a message came from, or away with it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import drain, fill, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

discard = rule(
    "001", "1.8.3.14.2", "basic.reject.requeue/false", "Rejected without requeue, a message is discarded"
)
requeue = rule(
    "001", "1.8.3.14.2", "basic.reject.requeue/true", "Rejected with requeue, a message is queued again"
)
flag = rule(
    "001", "1.1", "redelivered", "A message that may have been delivered before is marked redelivered"
)
position = rule("004", "requeue", "requeue/position", "A requeued message returns to its original position")
nack = rule(
    "004", "basic.nack", "basic.nack", "basic.nack rejects one, several or all outstanding messages", "MAY"
)
busy = rule(
    "001",
    "1.8.3.14",
    "basic.reject/while-sending",
    "Reject is taken while the server sends content",
    "SHOULD",
)


def reject(tag: int, again: bool) -> spec.Basic.Reject:
    return spec.Basic.Reject(delivery_tag=tag, requeue=again)


@discard
@pytest.mark.parametrize("method", [spec.Basic.Reject, spec.Basic.Nack])
def test_discarding(channel: RawChannel, method: Any) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    channel.get(queue, no_ack=False)
    channel.send(method(delivery_tag=1, requeue=False))
    assert drain(channel, queue) == numbered(3)[1:]
    channel.close()
    channel.open()
    assert drain(channel, queue) == []


@requeue
@flag
@pytest.mark.parametrize("method", [spec.Basic.Reject, spec.Basic.Nack])
def test_requeueing(channel: RawChannel, method: Any) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x"])
    first = channel.get(queue, no_ack=False)
    channel.send(method(delivery_tag=1, requeue=True))
    second = channel.get(queue, no_ack=False)
    assert first is not None
    assert second is not None
    assert (first.redelivered, second.redelivered) == (False, True)
    assert (second.delivery_tag, second.body) == (2, b"x")


@requeue
@rule(
    "001",
    "1.8.3.14.2",
    "basic.reject.requeue/alternative",
    "A requeued message can reach another consumer",
    "MAY",
)
def test_requeued_message_reaches_another_consumer(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    tag = channel.consume(queue)
    fill(channel, queue, [b"x"])
    rejected = channel.delivery()
    other = connect().channel()
    other.consume(queue)
    channel.cancel(tag)
    channel.send(reject(rejected.delivery_tag, True))
    message = other.delivery()
    assert (message.body, message.redelivered) == (b"x", True)


@position
@pytest.mark.parametrize("order", [[1, 2, 3], [3, 2, 1], [2, 3, 1]])
def test_requeued_messages_return_to_their_places(channel: RawChannel, order: list[int]) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(5))
    for _ in range(3):
        channel.get(queue, no_ack=False)
    for tag in order:
        channel.send(reject(tag, True))
    messages = [channel.get(queue) for _ in range(5)]
    assert [m.body for m in messages if m] == numbered(5)
    assert [m.redelivered for m in messages if m] == [True, True, True, False, False]


@position
def test_requeued_message_between_unacknowledged_ones(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(6))
    for _ in range(6):
        channel.get(queue, no_ack=False)
    for tag in (2, 5, 3):
        channel.send(reject(tag, True))
    assert drain(channel, queue) == [b"message 1", b"message 2", b"message 4"]


@position
def test_requeued_message_before_later_ones(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(2))
    channel.get(queue, no_ack=False)
    channel.get(queue, no_ack=False)
    fill(channel, queue, numbered(2, start=2))
    channel.send(spec.Basic.Nack(delivery_tag=2, multiple=True, requeue=True))
    assert drain(channel, queue) == numbered(4)


@position
def test_requeueing_to_a_running_consumer(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.qos(3)
    channel.consume(queue)
    fill(channel, queue, numbered(5))
    channel.deliveries(3)
    channel.send(spec.Basic.Nack(delivery_tag=0, multiple=True, requeue=True))
    again = channel.deliveries(3)
    assert [(m.body, m.redelivered, m.delivery_tag) for m in again] == [
        (body, True, tag) for tag, body in enumerate(numbered(3), start=4)
    ]


@nack
@pytest.mark.parametrize(
    ("tag", "multiple", "left"),
    [(3, False, [3]), (3, True, [1, 2, 3]), (0, True, [1, 2, 3, 4, 5]), (5, True, [1, 2, 3, 4, 5])],
)
def test_nack_with_requeue(channel: RawChannel, tag: int, multiple: bool, left: list[int]) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"%d" % number for number in range(1, 6)])
    for _ in range(5):
        channel.get(queue, no_ack=False)
    channel.send(spec.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=True))
    assert drain(channel, queue) == [b"%d" % number for number in left]


@nack
def test_nack_without_requeue(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(5))
    for _ in range(4):
        channel.get(queue, no_ack=False)
    channel.send(spec.Basic.Nack(delivery_tag=3, multiple=True, requeue=False))
    channel.close()
    channel.open()
    assert drain(channel, queue) == numbered(5)[3:]


@flag
def test_redelivered_flag_stays(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x"])
    flags = []
    for tag in range(1, 5):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        flags.append(message.redelivered)
        channel.send(reject(tag, True))
    assert flags == [False, True, True, True]
    round_trip(channel)


@busy
def test_reject_while_a_large_content_is_sent(channel: RawChannel) -> None:
    """The client sends before it reads: with full socket buffers a server that only writes would hang."""
    queue = channel.declare()
    for _ in range(3):
        channel.publish(b"x" * 4_000_000, routing_key=queue)
    channel.consume(queue)
    first = channel.delivery()
    channel.send(reject(first.delivery_tag, False))
    for _ in range(2000):
        channel.publish(b"y" * 1000)
    assert [len(message.body) for message in channel.deliveries(2)] == [4_000_000] * 2
    round_trip(channel)


@rule(
    "001",
    "1.8.3.9",
    "basic.deliver/attempts",
    "The server SHOULD count deliveries and dead-letter a message after about five (here twenty, in queues "
    "that have dead letters)",
    "SHOULD",
)
@rabbitmq_differs("does so in quorum queues only, since version 4")
def test_a_message_that_nobody_can_process_becomes_a_dead_letter(channel: RawChannel) -> None:
    letters, queue = channel.declare(), unique()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.call(spec.Queue.Declare(queue=queue, durable=True, arguments=arguments))
    fill(channel, queue, [b"poison"])
    for _ in range(21):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        channel.send(reject(message.method.delivery_tag, True))
    assert drain(channel, letters) == [b"poison"]
    channel.call(spec.Queue.Delete(queue=queue))
