"""channel.flow from a client: deliveries to its channel stop and go."""

import pytest

from tests.conformance.harness import RawChannel, RawClient, spec
from tests.conformance.model import drain, fill, numbered
from tests.conformance.rules import rabbitmq_differs, rule

flow = rule(
    "001", "1.5.2.3", "channel.flow/consumers", "After flow(false) the server sends the channel no content"
)
count = rule(
    "001",
    "1.7.2.2.3",
    "queue.declare-ok.consumer-count/flow",
    "Consumers stopped by channel.flow are not counted",
)
no_flow = rabbitmq_differs("answers active=false with 540 NOT_IMPLEMENTED")


def set_flow(channel: RawChannel, active: bool) -> None:
    channel.call(spec.Channel.Flow(active=active), active=active)


@flow
def test_flow_that_is_on_already(channel: RawChannel) -> None:
    set_flow(channel, True)


@flow
@no_flow
def test_deliveries_stop_and_go(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue, no_ack=True)
    set_flow(channel, False)
    fill(channel, queue, numbered(3))
    channel.client.expect_silence()
    set_flow(channel, True)
    assert [message.body for message in channel.deliveries(3)] == numbered(3)


@flow
@no_flow
def test_stopped_channel_still_publishes_and_gets(channel: RawChannel) -> None:
    """Flow stops what a server sends by itself; what a client asks for it still gets."""
    queue = channel.declare()
    set_flow(channel, False)
    fill(channel, queue, numbered(2))
    assert drain(channel, queue) == numbered(2)


@flow
@no_flow
def test_other_channels_go_on(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    second = client.channel(2)
    channel.consume(queue, no_ack=True)
    set_flow(channel, False)
    second.consume(queue, no_ack=True)
    fill(channel, queue, numbered(10))
    assert [message.body for message in second.deliveries(10)] == numbered(10)


@count
@no_flow
@pytest.mark.parametrize("consumers", [1, 3])
def test_stopped_consumers_are_not_counted(client: RawClient, channel: RawChannel, consumers: int) -> None:
    queue = channel.declare()
    second = client.channel(2)
    channel.consume(queue)
    for _ in range(consumers):
        second.consume(queue)
    set_flow(second, False)
    channel.call(spec.Queue.Declare(queue=queue, passive=True), consumer_count=1)
    set_flow(second, True)
    channel.call(spec.Queue.Declare(queue=queue, passive=True), consumer_count=1 + consumers)
