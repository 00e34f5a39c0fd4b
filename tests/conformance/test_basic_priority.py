"""Message priorities (two levels on every queue), and the order of everything else."""

from collections.abc import Callable

import pytest

from tests.conformance.model import drain, exchange, fill, numbered
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec

levels = rule("001", "1.8", "basic/two-priorities", "Priorities 0-4 and 5-9 are at least two distinct levels")
ten = rule("001", "1.8", "basic/ten-priorities", "Up to 10 priority levels", "MAY")
persistence = rule(
    "001", "1.8", "basic/order-persistence", "Same priority keeps its order whatever the persistence"
)
path = rule(
    "002", "4.7", "ordering/path", "One channel, one exchange, one queue, one channel: the order is kept"
)
fifo = rule("002", "3.1.4", "queue/fifo", "With one consumer a queue is first in, first out")
no_levels = rabbitmq_differs("has priorities only on queues declared with x-max-priority")


def publish(channel: RawChannel, queue: str, priority: int | None, body: bytes = b"") -> None:
    properties = spec.Basic.Properties(priority=priority)
    channel.publish(body or str(priority).encode(), routing_key=queue, properties=properties)


@levels
@no_levels
def test_high_priority_overtakes(channel: RawChannel) -> None:
    """The scenario of the document."""
    queue = channel.declare()
    for _ in range(5):
        publish(channel, queue, 0)
    publish(channel, queue, 9)
    channel.consume(queue, no_ack=True)
    assert [message.body for message in channel.deliveries(6)] == [b"9"] + [b"0"] * 5


@levels
@no_levels
@pytest.mark.parametrize(("low", "high"), [(4, 5), (0, 5), (None, 9), (4, 9)])
def test_border_between_the_levels(channel: RawChannel, low: int | None, high: int) -> None:
    queue = channel.declare()
    for priority in (low, high):
        publish(channel, queue, priority)
    assert drain(channel, queue) == [str(high).encode(), str(low).encode()]


@levels
@ten
@no_levels
def test_mixed_priorities(channel: RawChannel) -> None:
    """Ten messages low to high: every message of 5-9 comes before every one of 0-4."""
    queue = channel.declare()
    for priority in range(10):
        publish(channel, queue, priority)
    order = [int(body) for body in drain(channel, queue)]
    assert sorted(order) == list(range(10))
    assert {*order[:5]} == {5, 6, 7, 8, 9}


@levels
@no_levels
def test_order_within_a_level(channel: RawChannel) -> None:
    queue = channel.declare()
    for number in range(10):
        publish(channel, queue, 9 if number % 2 else 0, b"%d" % number)
    assert drain(channel, queue) == [b"1", b"3", b"5", b"7", b"9", b"0", b"2", b"4", b"6", b"8"]


@levels
@no_levels
def test_requeued_message_keeps_its_level(channel: RawChannel) -> None:
    queue = channel.declare()
    for number in range(3):
        publish(channel, queue, 0, b"low %d" % number)
        publish(channel, queue, 9, b"high %d" % number)
    for _ in range(4):
        channel.get(queue, no_ack=False)
    channel.send(spec.Basic.Nack(delivery_tag=0, multiple=True, requeue=True))
    assert drain(channel, queue) == [b"high 0", b"high 1", b"high 2", b"low 0", b"low 1", b"low 2"]


@persistence
@path
@pytest.mark.parametrize("durable", [False, True])
def test_order_with_mixed_persistence(channel: RawChannel, durable: bool) -> None:
    queue = channel.declare("", durable=durable)
    for number, body in enumerate(numbered(60)):
        mode = 2 if number % 3 else 1
        channel.publish(body, routing_key=queue, properties=spec.Basic.Properties(delivery_mode=mode))
    channel.consume(queue, no_ack=True)
    assert [message.body for message in channel.deliveries(60)] == numbered(60)


@path
@fifo
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
@pytest.mark.parametrize("no_ack", [True, False])
def test_order_through_an_exchange(
    connect: Callable[..., RawClient], channel: RawChannel, kind: str, no_ack: bool
) -> None:
    name, queue = exchange(channel, kind), channel.declare()
    channel.bind(queue, name, "key")
    channel.consume(queue, no_ack=no_ack)
    publisher = connect().channel()
    for body in numbered(500):
        publisher.publish(body, exchange=name, routing_key="key")
    messages = channel.deliveries(500)
    assert [message.body for message in messages] == numbered(500)
    assert [message.delivery_tag for message in messages] == list(range(1, 501))
    assert not any(message.redelivered for message in messages)


@path
def test_order_of_mixed_sizes(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue, no_ack=True)
    sizes = [0, 300_000, 1, 131_072, 5, 1_000_000, 0, 2] * 3
    for number, size in enumerate(sizes):
        channel.publish(bytes([number]) * size, routing_key=queue)
    expected = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert [message.body for message in channel.deliveries(len(sizes))] == expected


@path
@fifo
def test_order_while_the_queue_fills_and_drains(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(100))
    channel.qos(7)
    channel.consume(queue)
    bodies = []
    for number in range(300):
        message = channel.delivery()
        bodies.append(message.body)
        channel.ack(message.delivery_tag)
        if number < 200:
            fill(channel, queue, numbered(1, start=100 + number))
    assert bodies == numbered(300)
