"""connection.tune, tune-ok and open: the limits both sides agree on, and keep (001, 1.4.2.5 to 1.4.2.8)."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from pamqp import body, header
from pamqp import commands as spec
from pamqp import frame as codec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import FRAME_BODY, FRAME_METHOD, RawChannel, RawClient, raw_frame, unique

Connect = Callable[..., RawClient]
FRAME_MIN_SIZE = 4096

MINIMUM = rule(
    "001", "1.4.2.6.2", "connection.tune-ok.frame-max/minimum", "frame-max is not negotiated below 4096"
)
NOT_ABOVE = rule(
    "002", "2.3.3", "negotiation/lower-only", "The client may lower what the server proposed, never raise it"
)
OVERSIZED = rule(
    "002",
    "4.2.3",
    "frame-size/limit",
    "A frame larger than agreed is answered with connection exception 501 (frame error)",
)
NO_LIMIT = rule(
    "001",
    "1.4.2.6.2",
    "connection.tune-ok.frame-max/zero",
    "Zero: the client sets no limit, the server's stands",
)


def ends_after_tune_ok(client: RawClient, channel_max: int, frame_max: int) -> None:
    client.login()
    client.send(spec.Connection.TuneOk(channel_max, frame_max, 0))
    client.send(spec.Connection.Open())
    client.expect_eof()


@rule("002", "2.3.3", "negotiation/server-tells", "The server tells the client the limits that it proposes")
@rule(
    "001",
    "1.4.2.5.2",
    "connection.tune.frame-max",
    "The largest frame that the server proposes, at least 4096",
)
@rule("001", "1.4.2.5.1", "connection.tune.channel-max", "The highest channel number that the server permits")
@rule(
    "001", "1.4.2.5.3", "connection.tune.heartbeat", "The heartbeat delay that the server wants, in seconds"
)
def test_tune_proposes_limits(raw: RawClient) -> None:
    tune = raw.login()
    assert tune.frame_max == 0 or tune.frame_max >= FRAME_MIN_SIZE
    assert tune.channel_max == 0 or tune.channel_max >= 1
    assert tune.heartbeat > 0


@rule(
    "002",
    "2.3.3",
    "negotiation/lower",
    "The client answers with lower limits, down to the smallest frames and one channel",
)
@rule("001", "1.2", "frame-min-size", "Frames of 4096 octets are always accepted")
@MINIMUM
def test_smallest_limits(raw: RawClient) -> None:
    raw.handshake(channel_max=1, frame_max=FRAME_MIN_SIZE)
    channel = raw.channel(1)
    queue = channel.declare()
    data = bytes(range(256)) * 64
    channel.publish(data, routing_key=queue)
    # The raw client checks every frame against frame-max while it reads.
    message = channel.get(queue)
    assert message is not None
    assert message.body == data
    assert len(message.frames) > 2


@MINIMUM
@pytest.mark.parametrize("frame_max", [1, 8, FRAME_MIN_SIZE - 1])
def test_frame_max_below_the_minimum_is_refused(raw: RawClient, frame_max: int) -> None:
    ends_after_tune_ok(raw, 0x7FF, frame_max)


@NOT_ABOVE
def test_frame_max_above_the_proposal_is_refused(connect: Connect) -> None:
    proposed = connect(handshake=False).login().frame_max
    ends_after_tune_ok(connect(handshake=False), 1, proposed + 1)


@NOT_ABOVE
def test_channel_max_above_the_proposal_is_refused(connect: Connect) -> None:
    proposed = connect(handshake=False).login().channel_max
    ends_after_tune_ok(connect(handshake=False), proposed + 1, 131072)


@rabbitmq_differs("closes the connection: its own limit is not zero")
@NO_LIMIT
def test_frame_max_of_zero_leaves_the_servers_limit(raw: RawClient) -> None:
    tune = raw.login()
    raw.tune_ok(frame_max=0)
    raw.open_vhost()
    raw.frame_max = tune.frame_max
    channel = raw.channel(1)
    queue = channel.declare()
    channel.publish(b"x" * 300_000, routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert len(message.body) == 300_000


@rabbitmq_differs("closes the connection: its own limit is not zero")
@rule(
    "001",
    "1.4.2.6.1",
    "connection.tune-ok.channel-max/zero",
    "Zero: the client sets no limit, the server's stands",
)
def test_channel_max_of_zero_leaves_the_servers_limit(raw: RawClient) -> None:
    raw.handshake(channel_max=0)
    raw.channel(raw.tune.channel_max).sync()


@rule("001", "1.4.2.5.1", "connection.tune.channel-max/range", "Channels 1 to channel-max can be used")
def test_channels_up_to_channel_max(raw: RawClient) -> None:
    raw.handshake(channel_max=5)
    for number in range(1, 6):
        raw.channel(number)
    # All of them live side by side.
    for number in range(5, 0, -1):
        RawChannel(raw, number).sync()


@rule(
    "001",
    "1.4.2.5.1",
    "connection.tune.channel-max/number",
    "Channel-max is a number of channels, as in RabbitMQ: any may be among them",
)
@pytest.mark.parametrize("number", [6, 2048, 65535])
def test_channel_number_above_channel_max(raw: RawClient, number: int) -> None:
    raw.handshake(channel_max=5)
    raw.channel(number).sync()
    for other in range(1, 5):
        raw.channel(other).sync()
    raw.send(spec.Channel.Open(), 5)
    close = raw.expect_close(530)
    expected = "NOT_ALLOWED - number of channels opened (5) has reached the negotiated channel_max (5)"
    assert close.reply_text == expected


@rule(
    "001",
    "1.4.2.6.1",
    "connection.tune-ok.channel-max/count",
    "No more than channel-max channels at a time (530)",
)
def test_one_channel_too_many(raw: RawClient) -> None:
    raw.handshake(channel_max=1)
    raw.channel(1)
    raw.send(spec.Channel.Open(), 2)
    close = raw.expect_close(530)
    assert close.reply_text.startswith("NOT_ALLOWED - ")
    raw.expect_eof()


@rule(
    "001",
    "1.4.2.6.1",
    "connection.tune-ok.channel-max/reuse",
    "Closed channels do not count against channel-max",
)
def test_closed_channels_do_not_count(raw: RawClient) -> None:
    raw.handshake(channel_max=1)
    for _ in range(20):
        channel = raw.channel(1)
        channel.sync()
        channel.close()


@OVERSIZED
@rule("000", "4.2.3", "amq_wlp_frame_03", "An oversized frame is answered with 501")
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_BODY])
@pytest.mark.parametrize("pieces", [1, 3], ids=["one-write", "pieces"])
@pytest.mark.parametrize("frame_max", [FRAME_MIN_SIZE, 131072])
def test_oversized_frame(raw: RawClient, kind: int, pieces: int, frame_max: int) -> None:
    raw.handshake(frame_max=frame_max)
    raw.channel(1).sync()
    stream = b""
    if kind == FRAME_BODY:
        stream += codec.marshal(spec.Basic.Publish(routing_key="nowhere"), 1)
        stream += codec.marshal(header.ContentHeader(body_size=frame_max + 1), 1)
    # More than eight octets above the limit: RabbitMQ forgives clients that do not count a frame's overhead.
    stream += raw_frame(kind, 1, b"x" * (frame_max + 1))
    step = len(stream) // pieces + 1
    for start in range(0, len(stream), step):
        with suppress(ConnectionError):  # the broker need not listen to the rest
            raw.send_bytes(stream[start : start + step])
        if pieces > 1:
            time.sleep(0.05)  # so that the broker reads each piece by itself
    close = raw.expect_close(501)
    assert close.reply_text.startswith("FRAME_ERROR - ")
    raw.expect_eof()


@rule(
    "004",
    "extensions",
    "frame-size/forgiven",
    "Clients that do not count a frame's overhead of eight octets are forgiven, as by RabbitMQ",
    "MAY",
)
def test_payload_of_frame_max(raw: RawClient) -> None:
    raw.handshake(frame_max=FRAME_MIN_SIZE)
    channel = raw.channel(1)
    queue = channel.declare()
    channel.publish(b"x" * FRAME_MIN_SIZE * 2, routing_key=queue, chunk=FRAME_MIN_SIZE)
    message = channel.get(queue)
    assert message is not None
    assert len(message.body) == FRAME_MIN_SIZE * 2


@OVERSIZED
@rule("002", "4.10.1", "size-checked-first", "Sizes are checked before anything of that size is read")
def test_oversized_frame_is_refused_before_its_payload_came(channel_client: RawClient) -> None:
    channel_client.send_bytes(b"\x03\x00\x01\x7f\xff\xff\xff")
    channel_client.expect_close_and_eof(501)


@pytest.fixture
def channel_client(client: RawClient) -> RawClient:
    client.channel(1)
    return client


@rule(
    "001",
    "1.4.2.6.2",
    "connection.tune-ok.frame-max/exact",
    "A frame of exactly frame-max octets is accepted",
)
@pytest.mark.parametrize("frame_max", [FRAME_MIN_SIZE, 131072])
def test_frame_of_exactly_frame_max(raw: RawClient, frame_max: int) -> None:
    raw.handshake(frame_max=frame_max)
    channel = raw.channel(1)
    queue = channel.declare()
    data = b"x" * (frame_max - 8)
    channel.publish_method(routing_key=queue)
    channel.send_header(len(data))
    channel.send(body.ContentBody(data))
    message = channel.get(queue)
    assert message is not None
    assert message.body == data


@rule(
    "002", "4.2.3", "frame-size/sender", "The server sends no frame larger than agreed, whatever it was sent"
)
def test_large_content_is_cut_for_a_receiver_with_small_frames(connect: Connect) -> None:
    publisher, reader = connect().channel(1), connect(frame_max=FRAME_MIN_SIZE).channel(1)
    queue = publisher.declare(unique(), exclusive=False, auto_delete=True)
    data = bytes(range(251)) * 1000
    publisher.publish(data, routing_key=queue)
    publisher.sync()
    reader.consume(queue, no_ack=True)
    message = reader.delivery()
    assert message.body == data
    assert max(len(frame.payload) for frame in message.frames) <= FRAME_MIN_SIZE - 8


@rule("002", "2.2.4", "negotiation/order-tune", "After tune only tune-ok is expected")
@pytest.mark.parametrize(
    "method",
    [
        spec.Connection.Open(),
        spec.Connection.SecureOk("x"),
        spec.Connection.OpenOk(),
        spec.Queue.Declare(queue="q"),
    ],
    ids=lambda method: method.name,
)
def test_other_methods_instead_of_tune_ok(raw: RawClient, method: object) -> None:
    raw.login()
    raw.send(method)
    raw.expect_eof()


@rule("002", "2.2.4", "negotiation/order-open", "After tune-ok only connection.open is expected")
@pytest.mark.parametrize("method", [spec.Connection.TuneOk(1, 4096, 0), spec.Queue.Declare(queue="q")])
def test_other_methods_instead_of_open(raw: RawClient, method: object) -> None:
    raw.login()
    raw.tune_ok()
    raw.send(method)
    raw.expect_close_and_eof(504, "CHANNEL_ERROR - unexpected method in connection state opening")


@rule(
    "002",
    "2.2.4",
    "negotiation/channel-before-open",
    "No channel can be opened before the connection is open",
)
def test_channel_before_connection_open(raw: RawClient) -> None:
    raw.login()
    raw.tune_ok()
    raw.send(spec.Channel.Open(), 1)
    raw.expect_close_and_eof(505)


@rule("001", "1.4.2.7", "connection.open", "open selects a virtual host and is answered with open-ok")
@rule(
    "002", "2.2.4", "connection-lifecycle/open", "The server confirms that the virtual host is a valid choice"
)
def test_open_is_answered_with_open_ok(raw: RawClient) -> None:
    raw.login()
    raw.tune_ok()
    raw.send(spec.Connection.Open(virtual_host="/"))
    raw.expect(spec.Connection.OpenOk)


@pytest.mark.parametrize("vhost", ["nowhere", "", "//", "\N{SNOWMAN}"])
@rule(
    "001",
    "1.4.2.7.1",
    "connection.open.virtual-host",
    "An unknown virtual host is refused (RabbitMQ's 530, not 402)",
)
def test_unknown_virtual_host(raw: RawClient, vhost: str) -> None:
    raw.login()
    raw.tune_ok()
    raw.send(spec.Connection.Open(virtual_host=vhost))
    raw.expect_close(530, f"NOT_ALLOWED - vhost {vhost} not found", spec.Connection.Open)
    raw.expect_eof()


@rule(
    "001",
    "1.4.2.7.2",
    "connection.open.reserved",
    "The reserved fields (0-9: capabilities, insist) are not looked at",
)
def test_reserved_fields_of_open(raw: RawClient) -> None:
    raw.login()
    raw.tune_ok()
    raw.send_method(0, 10, 40, b"\x01/" + b"\x05hello" + b"\x01")
    raw.expect(spec.Connection.OpenOk)


@rule("002", "1.2.4", "pipelining", "A client may send its whole side of the handshake without waiting")
def test_pipelined_handshake(raw: RawClient) -> None:
    raw.send_bytes(b"AMQP\x00\x00\x09\x01")
    raw.start_ok()
    raw.send(spec.Connection.TuneOk(10, FRAME_MIN_SIZE, 0))
    raw.send(spec.Connection.Open())
    raw.send(spec.Channel.Open(), 1)
    raw.expect(spec.Connection.Start)
    raw.expect(spec.Connection.Tune)
    raw.expect(spec.Connection.OpenOk)
    raw.expect(spec.Channel.OpenOk, 1)
