"""channel.open, close and close-ok (001, 1.5.2.1, 1.5.2.5 and 1.5.2.6; 002, 2.2.5 and 4.3)."""

from collections.abc import Callable

import pytest
from pamqp import base, body, header
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import FRAME_METHOD, RawChannel, RawClient, unique

Connect = Callable[..., RawClient]

NOT_OPEN = rule("001", "1.2", "channel-error", "504: the client works with a channel that it has not opened")
DISCARD = rule(
    "001",
    "1.5.2.5",
    "channel.close/stability",
    "After sending close, everything received but close and close-ok is discarded",
)
REUSE = rule(
    "002",
    "2.2.5",
    "channel-lifecycle/reuse",
    "A channel number can be opened again after its close was confirmed",
)
MISSING = "NOT_FOUND - no queue 'missing' in vhost '/'"


def fail(channel: RawChannel) -> None:
    """Provoke a channel exception."""
    channel.send(spec.Queue.Declare(queue="missing", passive=True))


@rule("001", "1.5.2.1", "channel.open", "open is answered with open-ok, on every channel number")
@rule(
    "002",
    "2.2.5",
    "channel-lifecycle/open",
    "The client opens a channel, the server confirms that it is ready",
)
def test_open(client: RawClient) -> None:
    for number in (1, 2, 100, client.tune.channel_max):
        client.channel(number).sync()


@rule("001", "1.5.2.1", "channel.open/already-open", "Opening an open channel is a connection exception 504")
def test_opening_twice(channel: RawChannel) -> None:
    channel.send(spec.Channel.Open())
    channel.client.expect_close(504, "CHANNEL_ERROR - second 'channel.open' seen", spec.Channel.Open)
    channel.client.expect_eof()


@rule("001", "1.5.2.1.1", "channel.open.reserved-1", "The reserved field (0-9: out-of-band) is not looked at")
def test_reserved_field_of_open(client: RawClient) -> None:
    client.send_method(1, 20, 10, b"\x07nothing")
    client.expect(spec.Channel.OpenOk, 1)


@pytest.mark.parametrize(
    "method",
    [
        spec.Channel.Close(200, "", 0, 0),
        spec.Channel.CloseOk(),
        spec.Channel.Flow(True),
        spec.Exchange.Declare(exchange="e"),
        spec.Queue.Declare(queue="q"),
        spec.Basic.Qos(),
        spec.Basic.Ack(1),
        spec.Tx.Select(),
        spec.Connection.Open(),
    ],
    ids=lambda method: method.name,
)
@NOT_OPEN
def test_methods_on_a_channel_that_is_not_open(client: RawClient, method: base.Frame) -> None:
    client.send(method, 7)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", type(method))
    client.expect_eof()


@NOT_OPEN
def test_publish_on_a_channel_that_is_not_open(client: RawClient) -> None:
    RawChannel(client, 7).publish(b"x", routing_key="q")
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", spec.Basic.Publish)
    client.expect_eof()


@pytest.mark.parametrize(
    "content", [header.ContentHeader(body_size=1), body.ContentBody(b"x")], ids=["header", "body"]
)
@rule("001", "1.2", "unexpected-frame", "505: a frame that was not expected, usually around contents")
def test_content_on_a_channel_that_is_not_open(client: RawClient, content: object) -> None:
    client.send(content, 7)
    client.expect_close(505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead")
    client.expect_eof()


@rule("001", "1.5.2.5", "channel.close/confirmed", "close is answered with close-ok; other channels live on")
@rule("002", "2.2.5", "channel-lifecycle/close", "One peer closes the channel, the other shakes hands")
def test_close_is_answered_with_close_ok(client: RawClient) -> None:
    first, second = client.channel(1), client.channel(2)
    first.send(spec.Channel.Close(200, "Goodbye", 0, 0))
    first.expect(spec.Channel.CloseOk)
    second.sync()


@NOT_OPEN
def test_methods_after_the_close_was_confirmed(channel: RawChannel) -> None:
    channel.close()
    channel.send(spec.Basic.Qos())
    channel.client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", spec.Basic.Qos)


@REUSE
def test_number_is_free_after_the_clients_close(client: RawClient) -> None:
    for _ in range(50):
        channel = client.channel(3)
        channel.sync()
        channel.close()


@REUSE
def test_number_is_free_after_an_exception(client: RawClient) -> None:
    for _ in range(50):
        channel = client.channel(3)
        fail(channel)
        channel.expect_close(404, MISSING)
    client.channel(3).sync()


@rule(
    "002",
    "2.2.5",
    "channel-lifecycle/fresh",
    "A channel that is opened again knows nothing of its former life",
)
def test_reopened_channel_is_fresh(client: RawClient) -> None:
    channel = client.channel(1)
    queue = channel.declare()
    channel.confirm_select()
    for _ in range(3):
        channel.publish(b"x", routing_key=queue)
    while channel.expect(spec.Basic.Ack).delivery_tag < 3:
        pass
    channel.close()
    channel = client.channel(1)
    # Not in confirm mode any more: a publish is followed by nothing but the reply to the next request.
    channel.publish(b"x", routing_key=queue)
    channel.sync()
    # Delivery tags start again.
    message = channel.get(queue, no_ack=False)
    assert message is not None
    assert message.delivery_tag == 1
    # And "the last declared queue" is forgotten.
    channel.send(spec.Queue.Purge(queue=""))
    assert channel.expect(spec.Channel.Close).reply_code in (404, 502, 530)


@rule(
    "002", "4.8.1", "channel-exception", "A channel exception closes the channel and leaves the others alone"
)
@rule("002", "2.3.6", "errors/operational", "Operational errors close the channel, with reply code and text")
@rule(
    "001", "1.5.2.5", "channel.close/exception", "The close of an exception names the method that caused it"
)
@rule("001", "1.2", "not-found", "404: the entity does not exist (a channel exception)")
def test_channel_exception(client: RawClient) -> None:
    first, second = client.channel(1), client.channel(2)
    fail(first)
    first.expect_close(404, MISSING, spec.Queue.Declare)
    second.sync()
    first.open()
    first.sync()


@DISCARD
def test_methods_after_a_channel_exception_are_discarded(channel: RawChannel) -> None:
    queue = unique()
    fail(channel)
    channel.send(spec.Queue.Declare(queue=queue, exclusive=True))
    channel.send(spec.Basic.Qos())
    fail(channel)
    channel.send(spec.Basic.Ack(delivery_tag=99))
    channel.expect_close(404, MISSING)
    # No reply to any of the discarded methods, and none of them had an effect.
    channel.open()
    channel.call_fails(spec.Queue.Declare(queue=queue, passive=True), 404)


@DISCARD
def test_content_after_a_channel_exception_is_discarded(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    queue = other.declare()
    fail(channel)
    channel.publish(b"x" * 1000, routing_key=queue, chunk=100)
    channel.publish(b"", routing_key=queue)
    channel.expect_close(404, MISSING)
    channel.open()
    channel.sync()
    assert other.depth(queue) == 0


@DISCARD
def test_exception_amid_pipelined_contents(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    queue = other.declare()
    channel.publish(b"before", routing_key=queue)
    channel.publish(b"wrong", exchange="missing")
    channel.publish(b"after", routing_key=queue)
    channel.expect_close(404, "NOT_FOUND - no exchange 'missing' in vhost '/'", spec.Basic.Publish)
    message = other.get(queue)
    assert message is not None
    assert message.body == b"before"
    assert other.get(queue) is None


@rule(
    "001",
    "1.5.2.5",
    "channel.close/crossing",
    "A close received after sending close is answered with close-ok",
)
def test_crossing_closes(channel: RawChannel) -> None:
    fail(channel)
    channel.send(spec.Channel.Close(200, "", 0, 0))
    channel.expect_close(404, MISSING, answer=False)
    channel.expect(spec.Channel.CloseOk)
    channel.send(spec.Channel.CloseOk())
    channel.open()
    channel.sync()


@rule("001", "1.5.2.6", "channel.close-ok", "close-ok lets the server release the channel's number")
def test_close_ok_frees_the_number(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    fail(channel)
    channel.expect_close(404, MISSING)
    other.sync()
    channel.open()


@pytest.mark.parametrize("code", [0, 200, 404, 541, 65535])
@rule("001", "1.5.2.5.1", "channel.close.reply-code", "A client may give any reason for its close")
def test_any_reply_code(channel: RawChannel, code: int) -> None:
    channel.call(spec.Channel.Close(code, "x" * 255, 60, 40), spec.Channel.CloseOk)


@rule("002", "4.3", "channels/multiplexed", "Many channels share one socket, each with its own state")
def test_many_channels(client: RawClient) -> None:
    channels = [client.channel(number) for number in range(1, 201)]
    for channel in channels:
        channel.send(spec.Queue.Declare(queue="", exclusive=True))
    replies = [client.next_frame() for _ in channels]
    assert {reply.channel for reply in replies} == set(range(1, 201))
    assert len({reply.value.queue for reply in replies}) == 200


@rule(
    "002", "4.3", "channels/negotiated-to-one", "The number of channels can be negotiated down to one", "MAY"
)
def test_single_channel(connect: Connect) -> None:
    connect(channel_max=1).channel(1).sync()


@rule("002", "4.3", "channels/fair", "A very busy channel does not starve the others", "SHOULD")
def test_busy_channel_does_not_starve_another(connect: Connect) -> None:
    client = connect()
    busy, quiet = client.channel(1), client.channel(2)
    queue = busy.declare()
    count, size = 400, 100_000
    for _ in range(count):
        busy.publish(b"x" * size, routing_key=queue)
    busy.sync()
    busy.consume(queue, no_ack=True)
    quiet.send(spec.Basic.Qos())
    delivered = 0
    while True:
        frame = client.next_frame()
        if frame.channel == 2:
            break
        delivered += frame.kind == FRAME_METHOD
    assert delivered < count, "the quiet channel was answered only after the busy one had sent everything"
