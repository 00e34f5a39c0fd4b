"""basic.qos: windows in messages and in octets, per consumer and shared, changed while consumers run."""

from typing import Any

import pytest

from tests.conformance.model import fill, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec

count = rule(
    "001", "1.8.3.1.2", "basic.qos.prefetch-count", "No more than prefetch-count messages are unacknowledged"
)
never_more = rule(
    "001", "1.8.3.1.2", "basic.qos/never-more", "The server may send less in advance, never more"
)
size = rule(
    "001", "1.8.3.1.1", "basic.qos.prefetch-size", "No more than prefetch-size octets are sent in advance"
)
single = rule(
    "001",
    "1.8.3.1.1",
    "basic.qos.prefetch-size/single",
    "A single larger message is sent when nothing is outstanding",
)
no_ack = rule("001", "1.8.3.1.2", "basic.qos/no-ack", "Prefetch limits are ignored for no-ack consumers")
global_ = rule(
    "004",
    "basic.qos",
    "basic.qos.global",
    "global=false limits each consumer, global=true all consumers of the channel together (as RabbitMQ)",
)
active = rule("001", "1.8.3.2", "basic.qos-ok/active", "The new limits apply to all active consumers")
no_size = rabbitmq_differs("answers prefetch-size with 540 NOT_IMPLEMENTED")


def expect_exactly(channel: RawChannel, number: int) -> list[Any]:
    """This many deliveries come and no more."""
    messages = channel.deliveries(number)
    channel.client.expect_silence()
    return messages


@count
@never_more
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_prefetch_count(channel: RawChannel, limit: int) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(30))
    channel.qos(limit)
    channel.consume(queue)
    messages = expect_exactly(channel, limit)
    channel.ack(messages[0].delivery_tag)
    expect_exactly(channel, 1)
    channel.ack(0, multiple=True)
    expect_exactly(channel, limit)


@count
@pytest.mark.parametrize("how", ["reject", "nack", "requeue"])
def test_rejecting_gives_credit_back(channel: RawChannel, how: str) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    channel.qos(1)
    channel.consume(queue)
    tag = expect_exactly(channel, 1)[0].delivery_tag
    request = {
        "reject": spec.Basic.Reject(delivery_tag=tag, requeue=False),
        "nack": spec.Basic.Nack(delivery_tag=tag, requeue=False),
        "requeue": spec.Basic.Reject(delivery_tag=tag, requeue=True),
    }[how]
    channel.send(request)
    assert expect_exactly(channel, 1)[0].body == (b"message 0" if how == "requeue" else b"message 1")


@count
def test_zero_means_no_limit(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.qos(0)
    channel.consume(queue)
    fill(channel, queue, numbered(500))
    assert len(channel.deliveries(500)) == 500


@no_ack
def test_no_ack_consumers_are_not_limited(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(20))
    channel.qos(1)
    channel.consume(queue, no_ack=True)
    expect_exactly(channel, 20)


@global_
def test_each_consumer_has_its_own_window(channel: RawChannel) -> None:
    channel.qos(2)
    for _ in range(3):
        queue = channel.declare()
        fill(channel, queue, numbered(5))
        channel.consume(queue)
        expect_exactly(channel, 2)


@global_
@never_more
def test_shared_window(channel: RawChannel) -> None:
    channel.qos(3, global_=True)
    queues = [channel.declare() for _ in range(3)]
    for queue in queues:
        channel.consume(queue)
    for queue in queues:
        fill(channel, queue, numbered(5))
    messages = expect_exactly(channel, 3)
    channel.ack(messages[1].delivery_tag)
    expect_exactly(channel, 1)
    channel.ack(0, multiple=True)
    expect_exactly(channel, 3)


@global_
def test_shared_and_own_window_together(channel: RawChannel) -> None:
    """The smaller of the two counts."""
    channel.qos(2)
    channel.qos(5, global_=True)
    for expected in (2, 2, 1):
        queue = channel.declare()
        fill(channel, queue, numbered(5))
        channel.consume(queue)
        expect_exactly(channel, expected)


@global_
def test_windows_belong_to_their_channel(client: RawClient, channel: RawChannel) -> None:
    channel.qos(1, global_=True)
    second = client.channel(2)
    queue = second.declare()
    fill(second, queue, numbered(5))
    second.consume(queue)
    assert len(second.deliveries(5)) == 5


@active
@global_
def test_shared_window_grows_for_running_consumers(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(20))
    channel.qos(2, global_=True)
    channel.consume(queue)
    expect_exactly(channel, 2)
    channel.qos(5, global_=True)
    expect_exactly(channel, 3)
    channel.qos(0, global_=True)
    expect_exactly(channel, 15)


@active
@global_
def test_shared_window_shrinks_for_running_consumers(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(20))
    channel.qos(4, global_=True)
    channel.consume(queue)
    messages = expect_exactly(channel, 4)
    channel.qos(1, global_=True)
    channel.ack(messages[2].delivery_tag, multiple=True)
    channel.client.expect_silence()
    channel.ack(messages[3].delivery_tag)
    expect_exactly(channel, 1)


@rule(
    "004",
    "basic.qos",
    "basic.qos/to-come",
    "Without `global` the limits are for consumers that start later, as in RabbitMQ",
)
def test_own_windows_are_for_consumers_to_come(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(20))
    channel.qos(1)
    channel.consume(queue)
    expect_exactly(channel, 1)
    channel.qos(4)
    channel.client.expect_silence()
    channel.consume(queue)
    expect_exactly(channel, 4)


@size
@never_more
@no_size
def test_prefetch_size(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x" * 400] * 5)
    channel.qos(0, size=1000)
    channel.consume(queue)
    messages = expect_exactly(channel, 2)
    channel.ack(messages[0].delivery_tag)
    expect_exactly(channel, 1)


@single
@no_size
def test_message_larger_than_prefetch_size(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x" * 5000] * 3)
    channel.qos(0, size=1000)
    channel.consume(queue)
    for _ in range(3):
        message = expect_exactly(channel, 1)[0]
        channel.ack(message.delivery_tag)
    round_trip(channel)


@size
@count
@never_more
@no_size
def test_prefetch_size_and_count(channel: RawChannel) -> None:
    """The scenario of the document: a size limit, a count above one, messages that exceed the size."""
    queue = channel.declare()
    fill(channel, queue, [b"x" * 600] * 4)
    channel.qos(3, size=1000)
    channel.consume(queue)
    expect_exactly(channel, 1)
    channel.ack(0, multiple=True)
    expect_exactly(channel, 1)


@size
@global_
@no_size
def test_shared_prefetch_size(channel: RawChannel) -> None:
    channel.qos(0, global_=True, size=1000)
    queues = [channel.declare() for _ in range(2)]
    for queue in queues:
        channel.consume(queue)
    for queue in queues:
        fill(channel, queue, [b"x" * 400] * 3)
    expect_exactly(channel, 2)


@no_ack
@no_size
def test_prefetch_size_is_ignored_for_no_ack(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x" * 400] * 5)
    channel.qos(0, size=100)
    channel.consume(queue, no_ack=True)
    expect_exactly(channel, 5)


@global_
def test_a_shared_window_leaves_no_queue_behind(channel: RawChannel) -> None:
    channel.qos(1, global_=True)
    queues = [channel.declare() for _ in range(3)]
    for queue in queues:
        channel.consume(queue)
    for queue in queues:
        for data in numbered(10):
            channel.publish(data, routing_key=queue)
    seen = set()
    for _ in range(15):
        message = channel.delivery()
        seen.add(message.method.routing_key)
        channel.ack(message.delivery_tag)
    assert seen == set(queues)
