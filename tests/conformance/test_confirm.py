"""Publisher confirms: every message of the channel is acknowledged, in order, several at once if need be."""

from collections.abc import Callable

import pytest

from tests.conformance.model import await_confirms, drain, exchange, fill, numbered, round_trip, unknown_tag
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

select = rule("004", "confirms", "confirm.select", "confirm.select is answered, and may be said again")
tags = rule(
    "004", "confirms", "confirm/tags", "Publishes are counted from 1, and each is confirmed exactly once"
)
routed = rule("004", "confirms", "confirm/routed", "A confirmed message is in all its queues")
unroutable = rule(
    "004", "confirms", "confirm/unroutable", "Unroutable messages are confirmed, after their return"
)
nacked = rule("004", "confirms", "basic.nack/publisher", "A message that a queue refuses is nacked")


@pytest.fixture
def confirming(channel: RawChannel) -> RawChannel:
    channel.confirm_select()
    return channel


@select
def test_selecting_twice(confirming: RawChannel) -> None:
    queue = confirming.declare()
    fill(confirming, queue, [b"x"])
    await_confirms(confirming, 1)
    confirming.confirm_select()
    fill(confirming, queue, [b"y"])
    confirming.expect(spec.Basic.Ack, delivery_tag=2)


@select
def test_selecting_without_waiting(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.send(spec.Confirm.Select(nowait=True))
    fill(channel, queue, [b"x"])
    channel.expect(spec.Basic.Ack, delivery_tag=1)


@select
def test_channels_confirm_on_their_own(client: RawClient, confirming: RawChannel) -> None:
    second = client.channel(2)
    queue = second.declare()
    fill(second, queue, [b"x"])
    round_trip(second)
    fill(confirming, queue, [b"y"])
    confirming.expect(spec.Basic.Ack, delivery_tag=1)


@tags
def test_messages_before_select_are_not_counted(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    channel.confirm_select()
    fill(channel, queue, [b"x"])
    channel.expect(spec.Basic.Ack, delivery_tag=1)


@tags
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_each_message_is_confirmed_once(confirming: RawChannel, persistent: bool, durable: bool) -> None:
    queue = confirming.declare(durable=durable)
    fill(confirming, queue, numbered(300), delivery_mode=2 if persistent else 1)
    await_confirms(confirming, 300)
    round_trip(confirming)
    assert drain(confirming, queue) == numbered(300)


@tags
def test_mixed_persistence_is_confirmed_completely(confirming: RawChannel) -> None:
    queue = confirming.declare(unique("queue"), durable=True)
    outstanding = set(range(1, 201))
    for number in range(200):
        fill(confirming, queue, [b"x"], delivery_mode=1 + number % 2)
    while outstanding:
        ack = confirming.expect(spec.Basic.Ack)
        covered = (
            {tag for tag in outstanding if tag <= ack.delivery_tag} if ack.multiple else {ack.delivery_tag}
        )
        assert covered <= outstanding, f"tag {ack.delivery_tag} was confirmed before"
        outstanding -= covered
    round_trip(confirming)


@routed
def test_confirmed_message_is_in_every_queue(
    connect: Callable[..., RawClient], confirming: RawChannel
) -> None:
    name = exchange(confirming, "fanout")
    queues = [confirming.declare(exclusive=False, durable=number % 2 == 0) for number in range(4)]
    for queue in queues:
        confirming.bind(queue, name)
    observer = connect().channel()
    for number in range(1, 11):
        confirming.publish(b"%d" % number, exchange=name)
        confirming.expect(spec.Basic.Ack, delivery_tag=number)
        assert [drain(observer, queue) for queue in queues] == [[b"%d" % number]] * 4
    for queue in queues:
        confirming.call(spec.Queue.Delete(queue=queue))


@routed
def test_large_and_empty_messages_are_confirmed(confirming: RawChannel) -> None:
    queue = confirming.declare()
    for number, size in enumerate((0, 1_000_000, 1), start=1):
        fill(confirming, queue, [b"x" * size])
        confirming.expect(spec.Basic.Ack, delivery_tag=number)


@unroutable
def test_unroutable_message_is_confirmed(confirming: RawChannel) -> None:
    confirming.publish(b"x", routing_key=unique())
    confirming.expect(spec.Basic.Ack, delivery_tag=1)


@unroutable
def test_return_comes_before_its_confirm(confirming: RawChannel) -> None:
    for number in range(1, 11):
        confirming.publish(b"%d" % number, routing_key=unique(), mandatory=True)
    returned, confirmed = 0, 0
    while confirmed < 10:
        value = confirming.client.next_frame().value
        if isinstance(value, spec.Basic.Return):
            returned += 1
            assert confirming.read_content(value).body == b"%d" % returned
        else:
            assert isinstance(value, spec.Basic.Ack)
            confirmed = value.delivery_tag
            assert confirmed <= returned, "confirmed before it was returned"
    assert returned == 10


@nacked
def test_full_queue_nacks(confirming: RawChannel) -> None:
    queue = confirming.declare(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    fill(confirming, queue, [b"fits"])
    confirming.expect(spec.Basic.Ack, delivery_tag=1)
    fill(confirming, queue, [b"does not fit"])
    confirming.expect(spec.Basic.Nack, delivery_tag=2)
    assert drain(confirming, queue) == [b"fits"]


@tags
def test_confirms_and_deliveries_have_their_own_tags(confirming: RawChannel) -> None:
    queue = confirming.declare()
    fill(confirming, queue, numbered(3))
    await_confirms(confirming, 3)
    message = confirming.get(queue, no_ack=False)
    assert message is not None
    assert message.delivery_tag == 1
    confirming.call_fails(spec.Basic.Ack(delivery_tag=2), 406, unknown_tag(2))


@tags
def test_failed_publish_closes_without_its_confirm(confirming: RawChannel) -> None:
    confirming.publish(b"x", exchange=unique())
    confirming.expect_close(404, method=spec.Basic.Publish)


@routed
@rule(
    "002",
    "4.7",
    "ordering/confirms",
    "Publisher and consumer on one channel: confirms do not disturb the order",
)
def test_confirms_beside_deliveries(confirming: RawChannel) -> None:
    queue = confirming.declare()
    confirming.consume(queue, no_ack=True)
    fill(confirming, queue, numbered(200))
    bodies, confirmed = [], 0
    while len(bodies) < 200 or confirmed < 200:
        value = confirming.client.next_frame().value
        if isinstance(value, spec.Basic.Deliver):
            bodies.append(confirming.read_content(value).body)
        else:
            assert isinstance(value, spec.Basic.Ack)
            assert value.delivery_tag > confirmed
            confirmed = value.delivery_tag
    assert bodies == numbered(200)
