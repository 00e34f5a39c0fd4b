"""channel.flow in both directions (001, 1.5.2.3 and 1.5.2.4; 002, 3.1.9)."""

from collections.abc import Callable

from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, unique
from tests.support.raw_frames import describe

Connect = Callable[..., RawClient]
NO_PAUSE = "knows no channel.flow active=false since 2.0 (540)"

PAUSE = rule(
    "001", "1.5.2.3.1", "channel.flow.active", "0 stops the peer's content frames, 1 starts them again"
)


@rule("001", "1.5.2.3", "channel.flow/initially-active", "A new channel is active")
def test_new_channel_delivers(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue, no_ack=True)
    channel.publish(b"x", routing_key=queue)
    assert channel.delivery().body == b"x"


@rule("001", "1.5.2.4.1", "channel.flow-ok.active/on", "flow-ok confirms the setting: active")
def test_flow_on_is_confirmed(channel: RawChannel) -> None:
    channel.call(spec.Channel.Flow(True), spec.Channel.FlowOk, active=True)


@rabbitmq_differs(NO_PAUSE)
@rule("001", "1.5.2.4.1", "channel.flow-ok.active/off", "flow-ok confirms the setting: paused")
def test_flow_off_is_confirmed(channel: RawChannel) -> None:
    channel.call(spec.Channel.Flow(False), spec.Channel.FlowOk, active=False)
    channel.call(spec.Channel.Flow(True), spec.Channel.FlowOk, active=True)


@rabbitmq_differs(NO_PAUSE)
@PAUSE
@rule("002", "3.1.9", "flow-control", "Flow control stops the flow of messages from a peer")
def test_paused_channel_gets_no_deliveries(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    queue = channel.declare()
    channel.consume(queue, no_ack=True)
    channel.call(spec.Channel.Flow(False), spec.Channel.FlowOk)
    other.publish(b"waiting", routing_key=queue)
    other.sync()
    # Nothing for channel 1 may come before these replies.
    channel.sync()
    assert other.depth(queue) == 1
    channel.call(spec.Channel.Flow(True), spec.Channel.FlowOk)
    assert channel.delivery().body == b"waiting"


@rabbitmq_differs(NO_PAUSE)
@PAUSE
def test_pausing_one_channel_leaves_others_flowing(client: RawClient) -> None:
    paused, flowing = client.channel(1), client.channel(2)
    queue = paused.declare()
    paused.consume(queue, no_ack=True)
    paused.call(spec.Channel.Flow(False), spec.Channel.FlowOk)
    flowing.consume(queue, no_ack=True)
    for _ in range(4):
        flowing.publish(b"x", routing_key=queue)
    assert len(flowing.deliveries(4)) == 4


@rabbitmq_differs(NO_PAUSE)
@rule("001", "1.5.2.3", "channel.flow/get", "basic.get is not affected by flow")
def test_get_works_on_a_paused_channel(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"x", routing_key=queue)
    channel.call(spec.Channel.Flow(False), spec.Channel.FlowOk)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"x"


@rabbitmq_differs(NO_PAUSE)
@rule(
    "001",
    "1.5.2.3",
    "channel.flow/open-then-pause",
    "A client may open a channel, pause it, and start it when it is ready",
)
def test_pause_before_consuming(channel: RawChannel) -> None:
    queue = channel.declare()
    for number in range(3):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.call(spec.Channel.Flow(False), spec.Channel.FlowOk)
    channel.consume(queue)
    channel.sync()
    channel.call(spec.Channel.Flow(True), spec.Channel.FlowOk)
    assert [message.body for message in channel.deliveries(3)] == [b"0", b"1", b"2"]


@rabbitmq_differs(NO_PAUSE)
@rule(
    "001",
    "1.5.2.3",
    "channel.flow/rapid",
    "A peer that sends contents reacts to flow as rapidly as possible",
    "SHOULD",
)
def test_pause_amid_deliveries(connect: Connect) -> None:
    client = connect()
    channel = client.channel(1)
    queue = channel.declare(unique())
    for _ in range(1000):
        channel.publish(b"x" * 500, routing_key=queue)
    channel.consume(queue, no_ack=True)
    channel.send(spec.Channel.Flow(False))
    before = 0
    while not isinstance((frame := client.next_frame()).value, spec.Channel.FlowOk):
        assert frame.channel == 1, describe(frame)
        before += isinstance(frame.value, spec.Basic.Deliver)
    # After flow-ok there is not a single content frame until the channel is started again.
    channel.sync()
    assert channel.depth(queue) == 1000 - before
    channel.call(spec.Channel.Flow(True), spec.Channel.FlowOk)
    assert len(channel.deliveries(1000 - before)) == 1000 - before


@rule("001", "1.5.2.4", "channel.flow-ok/unasked", "flow-ok without a flow is out of order (503)")
def test_flow_ok_unasked(channel: RawChannel) -> None:
    channel.send(spec.Channel.FlowOk(True))
    channel.client.expect_close(503, "COMMAND_INVALID - unimplemented method", spec.Channel.FlowOk)
