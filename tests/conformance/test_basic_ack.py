"""basic.ack: single, multiple, all; and tags that do not exist."""

from collections.abc import Callable

import pytest

from tests.conformance.model import drain, eventually, fill, leave, numbered, round_trip, unknown_tag
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

explicit = rule("001", "1.8", "basic/explicit-ack", "Explicitly acknowledged delivery is supported")
automatic = rule("001", "1.8", "basic/no-ack", "Un-acknowledged delivery (no-ack) is supported")
multiple = rule(
    "001", "1.8.3.13.2", "basic.ack.multiple", "multiple acknowledges up to and including the tag; 0 all"
)
unknown = rule(
    "001", "1.8.3.13.2", "basic.ack/unknown-tag", "A tag that was not delivered is a channel exception"
)
local = rule("001", "1.1", "delivery-tag/local", "Delivery tags belong to the channel of their delivery")
closing = rule(
    "002", "4.5", "channel-closure/requeue", "Unacknowledged messages of a closed channel are redelivered"
)


def left_after(channel: RawChannel, queue: str) -> list[bytes]:
    """What is in the queue after the channel that holds unacknowledged messages was closed."""
    channel.close()
    channel.open()
    return drain(channel, queue)


@explicit
def test_half_acknowledged_half_redelivered(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    """The scenario of the document: consume, acknowledge half, disconnect, reconnect, get the other half."""
    queue = channel.declare(unique("queue"), exclusive=False)
    fill(channel, queue, numbered(10))
    first = connect()
    consumer = first.channel()
    consumer.consume(queue)
    for message in consumer.deliveries(10)[::2]:
        consumer.ack(message.delivery_tag)
    round_trip(consumer)
    leave(first)
    second = connect().channel()
    second.consume(queue)
    again = second.deliveries(5)
    assert [message.body for message in again] == numbered(10)[1::2]
    assert all(message.redelivered for message in again)
    channel.call(spec.Queue.Delete(queue=queue))


@automatic
def test_no_ack_messages_are_gone_when_sent(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    second = client.channel(2)
    second.consume(queue, no_ack=True)
    fill(channel, queue, numbered(5))
    second.deliveries(5)
    second.close()
    assert drain(channel, queue) == []


@local
@pytest.mark.parametrize("no_ack", [False, True])
def test_delivery_tags_count_from_one(client: RawClient, no_ack: bool) -> None:
    for number in (1, 2):
        channel = client.channel(number)
        queue = channel.declare()
        channel.consume(queue, no_ack=no_ack)
        fill(channel, queue, numbered(5))
        assert [message.delivery_tag for message in channel.deliveries(5)] == [1, 2, 3, 4, 5]


@local
def test_consumers_of_a_channel_share_the_tags(channel: RawChannel) -> None:
    queues = [channel.declare() for _ in range(3)]
    for queue in queues:
        channel.consume(queue)
    for queue in queues * 2:
        fill(channel, queue, [b"x"])
    assert [message.delivery_tag for message in channel.deliveries(6)] == [1, 2, 3, 4, 5, 6]


@multiple
@pytest.mark.parametrize(
    ("acks", "left"),
    [
        ([(3, False)], [1, 2, 4, 5]),
        ([(3, True)], [4, 5]),
        ([(2, False), (4, True)], [5]),
        ([(5, True)], []),
        ([(0, True)], []),
        ([(4, False), (2, False), (5, True)], []),
        ([(1, False), (0, True)], []),
    ],
)
def test_acknowledging(channel: RawChannel, acks: list[tuple[int, bool]], left: list[int]) -> None:
    queue = channel.declare()
    channel.consume(queue)
    fill(channel, queue, [b"%d" % number for number in range(1, 6)])
    channel.deliveries(5)
    for tag, as_multiple in acks:
        channel.ack(tag, as_multiple)
    assert left_after(channel, queue) == [b"%d" % number for number in left]


@multiple
def test_zero_multiple_without_messages(channel: RawChannel) -> None:
    channel.ack(0, multiple=True)
    channel.send(spec.Basic.Nack(delivery_tag=0, multiple=True))
    round_trip(channel)


@multiple
def test_multiple_covers_all_queues_of_the_channel(channel: RawChannel) -> None:
    queues = [channel.declare() for _ in range(3)]
    for queue in queues:
        fill(channel, queue, [b"x"])
        assert channel.get(queue, no_ack=False) is not None
    channel.ack(2, multiple=True)
    channel.close()
    channel.open()
    assert [drain(channel, queue) for queue in queues] == [[], [], [b"x"]]


@unknown
@pytest.mark.parametrize(
    "request_",
    [
        spec.Basic.Ack(delivery_tag=42),
        spec.Basic.Ack(delivery_tag=42, multiple=True),
        spec.Basic.Ack(delivery_tag=0),
        spec.Basic.Ack(delivery_tag=2**63 - 1),
        spec.Basic.Reject(delivery_tag=42),
        spec.Basic.Reject(delivery_tag=0),
        spec.Basic.Nack(delivery_tag=42),
        spec.Basic.Nack(delivery_tag=42, multiple=True),
        spec.Basic.Nack(delivery_tag=0),
    ],
    ids=lambda request: f"{request.name}-{request.delivery_tag}",
)
@pytest.mark.parametrize("outstanding", [False, True])
def test_unknown_tag(channel: RawChannel, request_: spec.Basic.Ack, outstanding: bool) -> None:
    queue = channel.declare()
    if outstanding:
        fill(channel, queue, [b"kept"])
        assert channel.get(queue, no_ack=False) is not None
    channel.call_fails(request_, 406, unknown_tag(request_.delivery_tag))
    channel.open()
    assert drain(channel, queue) == ([b"kept"] if outstanding else [])


@unknown
@pytest.mark.parametrize("as_multiple", [False, True])
def test_acknowledging_twice(channel: RawChannel, as_multiple: bool) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(2))
    for _ in range(2):
        channel.get(queue, no_ack=False)
    channel.ack(1, as_multiple)
    channel.call_fails(spec.Basic.Ack(delivery_tag=1, multiple=as_multiple), 406, unknown_tag(1))


@unknown
def test_acknowledging_a_no_ack_delivery(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x"])
    assert channel.get(queue, no_ack=True) is not None
    channel.call_fails(spec.Basic.Ack(delivery_tag=1), 406, unknown_tag(1))


@unknown
@local
def test_acknowledging_on_another_channel(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, [b"x"])
    assert channel.get(queue, no_ack=False) is not None
    second = client.channel(2)
    second.call_fails(spec.Basic.Ack(delivery_tag=1), 406, unknown_tag(1))
    channel.ack(1)
    assert left_after(channel, queue) == []


@closing
@pytest.mark.parametrize("how", ["close", "exception", "drop", "reset", "connection"])
def test_messages_of_a_closed_channel_come_back(
    connect: Callable[..., RawClient], channel: RawChannel, how: str
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False)
    fill(channel, queue, numbered(5))
    client = connect()
    consumer = client.channel()
    consumer.consume(queue)
    for message in consumer.deliveries(5)[:2]:
        consumer.ack(message.delivery_tag)
    round_trip(consumer)
    if how == "close":
        consumer.close()
    elif how == "exception":
        consumer.call_fails(spec.Basic.Ack(delivery_tag=77), 406)
    elif how == "connection":
        leave(client)
    elif how == "reset":
        client.drop_hard()
    else:
        client.drop()
    assert eventually(lambda: channel.depth(queue) == 3)
    messages = [channel.get(queue) for _ in range(3)]
    assert [(m.body, m.redelivered) for m in messages if m] == [(body, True) for body in numbered(5)[2:]]
    channel.call(spec.Queue.Delete(queue=queue))


@closing
def test_messages_of_a_closed_channel_reach_waiting_consumers(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    first, second = client.channel(2), client.channel(3)
    first.consume(queue)
    first.deliveries(3)
    second.consume(queue)
    first.send(spec.Channel.Close(200, "", 0, 0))
    # close-ok and the deliveries belong to different channels: their order is not promised.
    bodies = []
    while len(bodies) < 3:
        value = client.next_frame().value
        if isinstance(value, spec.Basic.Deliver):
            message = second.read_content(value)
            assert message.redelivered
            bodies.append(message.body)
        else:
            assert isinstance(value, spec.Channel.CloseOk)
    assert bodies == numbered(3)
