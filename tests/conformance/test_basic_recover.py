"""basic.recover and recover-async: unacknowledged messages once more."""

import pytest

from tests.conformance.model import drain, fill, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec

flag = rule(
    "001", "1.8.3.16", "basic.recover/redelivered", "Messages that are sent again carry the redelivered flag"
)
again = rule(
    "001", "1.8.3.16.1", "basic.recover.requeue/true", "With requeue, messages go back to their queues"
)
same = rule(
    "001", "1.8.3.16.1", "basic.recover.requeue/false", "Without requeue, messages go to the same recipient"
)
async_ = rule("001", "1.8.3.15", "basic.recover-async", "recover-async does the same without an answer")
pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated")
no_false = rabbitmq_differs("answers requeue=false with 540 NOT_IMPLEMENTED")


def take_all(channel: RawChannel, count: int) -> str:
    """A queue whose `count` messages are with this channel, unacknowledged."""
    queue = channel.declare()
    fill(channel, queue, numbered(count))
    for _ in range(count):
        assert channel.get(queue, no_ack=False) is not None
    return queue


@again
@flag
def test_recover_requeues_in_order(channel: RawChannel) -> None:
    queue = take_all(channel, 4)
    channel.ack(2)
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    messages = [channel.get(queue) for _ in range(3)]
    assert [(m.body, m.redelivered) for m in messages if m] == [
        (body, True) for body in numbered(4) if body != b"message 1"
    ]


@again
@flag
@rule("002", "4.6", "synchronisation/recover", "Recovered messages come after recover-ok")
def test_recover_redelivers_to_a_consumer(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue)
    fill(channel, queue, numbered(3))
    channel.deliveries(3)
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    messages = channel.deliveries(3)
    assert [(m.body, m.redelivered) for m in messages] == [(body, True) for body in numbered(3)]
    assert [m.delivery_tag for m in messages] == [4, 5, 6]


@again
def test_recover_without_messages(channel: RawChannel) -> None:
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)


@again
def test_recover_concerns_its_own_channel(client: RawClient, channel: RawChannel) -> None:
    queue = take_all(channel, 2)
    second = client.channel(2)
    second.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    assert drain(second, queue) == []
    channel.ack(2, multiple=True)
    round_trip(channel)


@again
def test_recovered_tags_are_gone(channel: RawChannel) -> None:
    take_all(channel, 1)
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    channel.call_fails(spec.Basic.Ack(delivery_tag=1), 406, "PRECONDITION_FAILED - unknown delivery tag 1")


@async_
@flag
def test_recover_async(channel: RawChannel) -> None:
    queue = take_all(channel, 3)
    channel.send(spec.Basic.RecoverAsync(requeue=True))
    assert drain(channel, queue) == numbered(3)


@same
@flag
@no_false
@pytest.mark.parametrize("method", [spec.Basic.Recover, spec.Basic.RecoverAsync])
def test_recover_without_requeue_returns_to_the_same_consumer(client: RawClient, method: type) -> None:
    first, second = client.channel(1), client.channel(2)
    queue = first.declare()
    first.consume(queue, "mine")
    fill(first, queue, numbered(3))
    first.deliveries(3)
    second.consume(queue, "other")
    first.send(method(requeue=False))
    if method is spec.Basic.Recover:
        first.expect(spec.Basic.RecoverOk)
    messages = first.deliveries(3)
    assert [(m.body, m.redelivered, m.method.consumer_tag) for m in messages] == [
        (body, True, "mine") for body in numbered(3)
    ]
    first.ack(messages[-1].delivery_tag, multiple=True)
    first.close()
    assert drain(second, queue) == []


@same
@no_false
def test_recover_without_requeue_and_without_consumer_requeues(channel: RawChannel) -> None:
    """A message taken by basic.get has no consumer to go back to."""
    queue = take_all(channel, 2)
    channel.call(spec.Basic.Recover(requeue=False), spec.Basic.RecoverOk)
    messages = [channel.get(queue) for _ in range(2)]
    assert [(m.body, m.redelivered) for m in messages if m] == [(body, True) for body in numbered(2)]
