"""Contents: a method, a header, body frames, strictly in order (002, 2.3.5.2 and 4.2.6)."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import FRAME_BODY, FRAME_HEADER, RawChannel, RawClient, short_string, table

NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"

SEQUENCE = rule(
    "002",
    "4.2.6",
    "content/sequence",
    "Method, header, bodies: nothing of the same channel comes between (505)",
)
SIZE = rule("002", "4.2.6.1", "content-header/body-size", "The bodies sum up to the body-size of the header")
PROPERTIES = rule(
    "002", "4.2.6.1", "content-header/property-flags", "Flags say which properties follow, high bit first"
)


def raw_header(class_id: int = 60, weight: int = 0, size: int = 0, rest: bytes = b"\x00\x00") -> bytes:
    return struct.pack(">HHQ", class_id, weight, size) + rest


@rule("002", "4.2.6", "content/complete", "A content is one header frame and any number of body frames")
@pytest.mark.parametrize("chunk", [1, 7, 100, 1000])
def test_body_in_many_frames(channel: RawChannel, chunk: int) -> None:
    queue = channel.declare()
    data = bytes(range(250)) * 4
    channel.publish(data, routing_key=queue, chunk=chunk)
    message = channel.get(queue)
    assert message is not None
    assert message.body == data


@rule(
    "002",
    "4.2.6.2",
    "content-body/reassembled",
    "A body split into frames is one body, however it is sent on",
)
def test_large_body(channel: RawChannel) -> None:
    queue = channel.declare()
    data = bytes(i * 7 % 256 for i in range(256)) * 12_000
    channel.publish(data, routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert message.body == data


@rule("002", "4.2.6", "content/empty", "A content of size zero has no body frame")
def test_empty_body(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"", routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b""
    assert [frame.kind for frame in message.frames] == [FRAME_HEADER]
    channel.sync()


@rule("002", "4.2.6.2", "content-body/empty-frame", "Body frames may be empty; they add nothing")
def test_empty_body_frames(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    channel.send_header(2)
    for piece in (b"", b"a", b"", b"b"):
        channel.send_frame(FRAME_BODY, piece)
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"ab"


@rule("002", "4.2.6", "content/interleaved", "Contents of different channels may interleave")
def test_interleaved_channels(client: RawClient) -> None:
    first, second = client.channel(1), client.channel(2)
    queue_1, queue_2 = first.declare(), second.declare()
    first.publish_method(routing_key=queue_1)
    second.publish_method(routing_key=queue_2)
    first.send_header(4)
    first.send_body(b"on")
    second.send_header(3)
    second.send_body(b"tw")
    first.send_body(b"e.")
    client.send_heartbeat()
    second.send_body(b"o")
    for channel, queue, data in ((first, queue_1, b"one."), (second, queue_2, b"two")):
        message = channel.get(queue)
        assert message is not None
        assert message.body == data


def publish_then(*steps: Callable[[RawChannel], Any]) -> Callable[[RawChannel], None]:
    def run(channel: RawChannel) -> None:
        channel.publish_method(routing_key="nowhere")
        for step in steps:
            step(channel)

    return run


HEADER_10: Callable[[RawChannel], Any] = lambda channel: channel.send_header(10)  # noqa: E731
HEADER_0: Callable[[RawChannel], Any] = lambda channel: channel.send_header(0)  # noqa: E731
BODY: Callable[[RawChannel], Any] = lambda channel: channel.send_body(b"x")  # noqa: E731
METHOD: Callable[[RawChannel], Any] = lambda channel: channel.send(spec.Basic.Qos())  # noqa: E731


@pytest.mark.parametrize(
    ("provoke", "text", "blamed"),
    [
        pytest.param(HEADER_10, NO_METHOD, None, id="header-without-method"),
        pytest.param(BODY, NO_METHOD, None, id="body-without-method"),
        pytest.param(publish_then(METHOD), NO_HEADER, spec.Basic.Publish, id="method-for-header"),
        pytest.param(publish_then(BODY), NO_HEADER, spec.Basic.Publish, id="body-for-header"),
        pytest.param(
            publish_then(HEADER_10, METHOD), NO_BODY, spec.Basic.Publish, id="method-for-first-body"
        ),
        pytest.param(
            publish_then(HEADER_10, BODY, METHOD), NO_BODY, spec.Basic.Publish, id="method-amid-body"
        ),
        pytest.param(publish_then(HEADER_10, HEADER_10), NO_BODY, spec.Basic.Publish, id="second-header"),
        pytest.param(publish_then(HEADER_0, BODY), NO_METHOD, None, id="body-after-empty-content"),
        pytest.param(publish_then(HEADER_0, HEADER_0), NO_METHOD, None, id="header-after-content"),
    ],
)
@SEQUENCE
def test_frames_out_of_order(
    channel: RawChannel, provoke: Callable[..., None], text: str, blamed: Any
) -> None:
    provoke(channel)
    channel.client.expect_close(505, text, blamed)
    channel.client.expect_eof()


@SEQUENCE
@rule("002", "4.2.6", "content/aborted", "An aborted content is not routed")
def test_aborted_content_is_not_routed(connect: Callable[..., RawClient]) -> None:
    publisher, observer = connect().channel(1), connect().channel(1)
    queue = observer.declare()
    publisher.publish_method(exchange="", routing_key=queue)
    publisher.send_header(10)
    publisher.send_body(b"half")
    publisher.send(spec.Basic.Qos())
    publisher.client.expect_close_and_eof(505)
    assert observer.depth(queue) == 0


@SIZE
def test_body_longer_than_announced(connect: Callable[..., RawClient]) -> None:
    publisher, observer = connect().channel(1), connect().channel(1)
    queue = observer.declare(exclusive=False, auto_delete=True)
    publisher.publish_method(routing_key=queue)
    publisher.send_header(3)
    publisher.send_body(b"abcde")
    # RabbitMQ notices with the next frame only.
    publisher.send(spec.Basic.Qos())
    close = publisher.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 505), close.reply_text
    assert observer.depth(queue) == 0
    observer.call(spec.Queue.Delete(queue=queue))


@SIZE
def test_one_body_frame_too_many(channel: RawChannel) -> None:
    channel.publish(b"x", routing_key="nowhere")
    channel.send_body(b"y")
    channel.client.expect_close(505, NO_METHOD)


@pytest.mark.parametrize("class_id", [0, 10, 50, 61440])
@rule(
    "002", "4.2.6.1", "content-header/class-id", "The header's class is that of the method, else 501 or 505"
)
def test_header_of_another_class(channel: RawChannel, class_id: int) -> None:
    channel.publish_method(routing_key="nowhere")
    channel.send_frame(FRAME_HEADER, raw_header(class_id))
    text = f"UNEXPECTED_FRAME - expected content header for class 60, got one for class {class_id} instead"
    channel.client.expect_close(505, text, spec.Basic.Publish)


@rule("002", "4.2.6.1", "content-header/weight", "The weight is not used and zero")
def test_weight_must_be_zero(channel: RawChannel) -> None:
    channel.publish_method(routing_key="nowhere")
    channel.send_frame(FRAME_HEADER, raw_header(weight=1))
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502, 505), close.reply_text


@pytest.mark.parametrize("size", [0, 1, 4, 11])
@rule("002", "4.2.6.1", "content-header/complete", "A header frame shorter than its fixed part is malformed")
def test_short_header_frame(channel: RawChannel, size: int) -> None:
    channel.publish_method(routing_key="nowhere")
    channel.send_frame(FRAME_HEADER, raw_header()[:size])
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502), close.reply_text


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"\x80\x00", id="content-type-missing"),
        pytest.param(b"\x80\x00\x05ab", id="content-type-cut-off"),
        pytest.param(b"\x20\x00\x00\x00\x00\x64", id="headers-cut-off"),
        pytest.param(b"\x00\x40\x00\x00", id="timestamp-cut-off"),
        pytest.param(b"\x00\x00extra", id="octets-left-over"),
        pytest.param(b"\x00\x01", id="more-flags-missing"),
        pytest.param(b"\x00", id="flags-cut-off"),
    ],
)
@rabbitmq_differs("541 INTERNAL_ERROR, or no error at all until the message is consumed")
@PROPERTIES
def test_malformed_properties(channel: RawChannel, rest: bytes) -> None:
    channel.publish_method(routing_key="nowhere")
    channel.send_frame(FRAME_HEADER, raw_header(size=1, rest=rest))
    channel.send_body(b"x")
    channel.send(spec.Basic.Qos())
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502), close.reply_text


@PROPERTIES
def test_every_property_in_its_place(channel: RawChannel) -> None:
    # In the order of the flags, from bit 15 down to bit 2.
    values = [
        short_string("text/plain"),  # content-type
        short_string("gzip"),  # content-encoding
        table(("a", b"t\x01")),  # headers
        b"\x01",  # delivery-mode
        b"\x09",  # priority
        short_string("correlation"),
        short_string("reply-to"),
        short_string("60000"),  # expiration
        short_string("message-id"),
        struct.pack(">Q", 1_700_000_000),  # timestamp
        short_string("type"),
        short_string("guest"),  # user-id
        short_string("app-id"),
        short_string("cluster-id"),
    ]
    rest = b"\xff\xfc" + b"".join(values)
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    channel.send_frame(FRAME_HEADER, raw_header(size=1, rest=rest))
    channel.send_body(b"x")
    message = channel.get(queue)
    assert message is not None
    assert message.frames[0].payload[12:] == rest


@rule("002", "3.1.1", "content/unchanged", "The server does not modify the body or what the header says")
def test_properties_travel_unchanged(channel: RawChannel) -> None:
    queue = channel.declare()
    headers: Any = {"text": "\N{SNOWMAN}", "number": 2**40, "list": [1, "2", {"3": None}], "flag": False}
    properties = spec.Basic.Properties(
        content_type="a/b", headers=headers, priority=3, message_id="m", delivery_mode=2
    )
    channel.publish(b"body", routing_key=queue, properties=properties)
    message = channel.get(queue)
    assert message is not None
    assert message.properties == properties
    assert message.body == b"body"


@rabbitmq_differs("looks at the size only after it has received the whole body")
@rule(
    "001",
    "1.8.3.7",
    "content/too-large-early",
    "A content above the limit is refused before its body is buffered (406)",
)
def test_gigantic_content_is_refused_at_its_header(client: RawClient) -> None:
    channel, other = client.channel(1), client.channel(2)
    channel.publish_method(routing_key="nowhere")
    channel.send_frame(FRAME_HEADER, raw_header(size=1 << 40))
    close = channel.expect_close(406, method=spec.Basic.Publish)
    assert close.reply_text.startswith(
        f"PRECONDITION_FAILED - message size {1 << 40} is larger than configured max size "
    )
    other.sync()


@rule(
    "001",
    "1.8.3.7",
    "content/too-large",
    "A content above the configured size closes the channel (RabbitMQ's 406)",
)
@rule("001", "1.2", "precondition-failed", "406: a precondition failed (a channel exception)")
def test_content_above_the_configured_size(start_broker: Callable[..., Any]) -> None:
    broker = start_broker(max_message_size=1000)
    with RawClient(broker.port) as client:
        client.handshake()
        channel, other = client.channel(1), client.channel(2)
        queue = other.declare()
        channel.publish(b"x" * 1000, routing_key=queue)
        channel.sync()
        channel.publish(b"x" * 1001, routing_key=queue, chunk=100)
        text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
        channel.expect_close(406, text, spec.Basic.Publish)
        assert other.depth(queue) == 1
        channel.open()
        channel.publish(b"again", routing_key=queue)
        channel.sync()
        assert other.depth(queue) == 2
