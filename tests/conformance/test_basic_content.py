"""Contents: many body frames, none, properties and bytes left alone, sizes that do not fit."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.harness import RawChannel, RawClient, short_string, spec
from tests.conformance.model import drain, fill, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule

unchanged = rule(
    "002", "3.1.1", "content/unchanged", "The server changes neither the body nor properties it was given"
)
framing = rule(
    "002", "4.2.6", "content/framing", "A content is a header frame and as many body frames as it takes"
)
frame_max = rule(
    "002", "4.2.3", "content/frame-max", "Content is cut to the frame-max of the one who receives it"
)
too_large = rule(
    "004", "max_message_size", "content/too-large", "A body over the maximum size is refused with 406"
)

# The bytes between class id, weight, body size and the property list: every property of the class.
ALL_FLAGS = 0b1111111111111100


def header(size: int, flags: int, properties: bytes = b"", class_id: int = 60, weight: int = 0) -> bytes:
    return (
        class_id.to_bytes(2, "big")
        + weight.to_bytes(2, "big")
        + size.to_bytes(8, "big")
        + flags.to_bytes(2, "big")
        + properties
    )


@framing
@pytest.mark.parametrize("size", [0, 1, 2, 100, 4088, 131_064, 131_065, 1_000_003, 8_000_000])
def test_bodies_of_all_sizes(channel: RawChannel, size: int) -> None:
    body = random.Random(size).randbytes(size)
    queue = channel.declare()
    channel.publish(body, routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert message.body == body
    channel.consume(queue, no_ack=True)
    channel.publish(body, routing_key=queue)
    assert channel.delivery().body == body


@framing
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_bodies_in_small_frames(channel: RawChannel, chunk: int) -> None:
    body = bytes(range(256)) * 8
    queue = channel.declare()
    channel.publish(body, routing_key=queue, chunk=chunk)
    assert drain(channel, queue) == [body]


@framing
@rule("002", "4.2.6", "content/empty", "A content with body size 0 has no body frames")
def test_empty_body_has_no_body_frame(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"", routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert len(message.frames) == 1
    round_trip(channel)


@framing
def test_empty_body_frames_are_harmless(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    channel.send_header(4)
    for piece in (b"", b"ab", b"", b"", b"cd"):
        channel.send_body(piece)
    assert drain(channel, queue) == [b"abcd"]


@frame_max
@pytest.mark.parametrize("size", [4096, 5000, 65_536])
def test_receiver_with_small_frames(
    connect: Callable[..., RawClient], channel: RawChannel, size: int
) -> None:
    """The harness checks that no frame exceeds what was agreed; here that is less than was published in."""
    body = random.Random(size).randbytes(300_000)
    queue = channel.declare(exclusive=False, auto_delete=True)
    channel.publish(body, routing_key=queue)
    small = connect(frame_max=size).channel()
    small.consume(queue)
    message = small.delivery()
    assert message.body == body
    assert len(message.frames) >= 300_000 // size


@frame_max
def test_receiver_with_larger_frames(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    queue = channel.declare(exclusive=False, auto_delete=True)
    body = random.Random(1).randbytes(200_000)
    sender = connect(frame_max=4096).channel()
    sender.publish(body, routing_key=queue)
    sender.sync()
    assert drain(channel, queue) == [body]
    channel.call(spec.Queue.Delete(queue=queue))


@unchanged
def test_properties_arrive_as_the_bytes_they_were(channel: RawChannel) -> None:
    headers = b"\x01ti\0\0\0\x07" + b"\x01sS\0\0\0\x01x" + b"\x03binx\0\0\0\x02\xff\0" + b"\x04voidV"
    properties = (
        short_string("text/plain")
        + short_string("utf-8")
        + len(headers).to_bytes(4, "big")
        + headers
        + b"\x01\x04"
        + b"".join(short_string(text) for text in ("correlation", "reply-to", "60000", "id"))
        + (2**40).to_bytes(8, "big")
        + b"".join(short_string(text) for text in ("type", "guest", "app", ""))
    )
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    channel.send_frame(2, header(1, ALL_FLAGS, properties))
    channel.send_body(b"x")
    message = channel.get(queue)
    assert message is not None
    assert message.frames[0].payload == header(1, ALL_FLAGS, properties)


@unchanged
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"headers": {}},
        {"headers": {"nested": {"a": [1, {"b": None}]}, "text": "ü", "big": 2**60, "float": 0.25}},
        {"delivery_mode": 2, "priority": 9},
        {"priority": 255},
    ],
    ids=str,
)
def test_properties_survive(channel: RawChannel, properties: dict[str, Any]) -> None:
    queue = channel.declare()
    channel.publish(b"x", routing_key=queue, properties=spec.Basic.Properties(**properties))
    message = channel.get(queue)
    assert message is not None
    assert dict(message.properties) == dict(spec.Basic.Properties(**properties))


@too_large
@rabbitmq_differs("looks at the size only when the whole body has arrived")
@pytest.mark.parametrize("size", [134_217_729, 2**40, 2**64 - 1])
def test_too_large_body_is_refused_at_its_header(channel: RawChannel, size: int) -> None:
    channel.publish_method(routing_key=channel.declare())
    channel.send_header(size)
    text = f"PRECONDITION_FAILED - message size {size} is larger than configured max size 134217728"
    channel.expect_close(406, text, spec.Basic.Publish)


@too_large
@rabbitmq_differs("looks at the size only when the whole body has arrived")
def test_body_frames_of_a_refused_content_are_discarded(client: RawClient, channel: RawChannel) -> None:
    channel.publish_method(routing_key=channel.declare())
    channel.send_header(200_000_000)
    for _ in range(10):
        channel.send_body(b"x" * 100_000)
    channel.expect_close(406)
    channel.open()
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    assert drain(channel, queue) == numbered(3)
    round_trip(client.channel(2))


@too_large
def test_the_maximum_itself_is_accepted(start_broker: Callable[..., Any]) -> None:
    broker = start_broker(max_message_size=100_000)
    with RawClient(broker.port) as client:
        channel = client.handshake().channel()
        queue = channel.declare()
        channel.publish(b"x" * 100_000, routing_key=queue)
        assert drain(channel, queue) == [b"x" * 100_000]
        channel.publish(b"x" * 100_001, routing_key=queue)
        text = "PRECONDITION_FAILED - message size 100001 is larger than configured max size 100000"
        channel.expect_close(406, text, spec.Basic.Publish)


@framing
@rabbitmq_differs("goes on to wait for more, with a negative remainder")
def test_more_body_than_announced(client: RawClient, channel: RawChannel) -> None:
    channel.publish_method(routing_key=channel.declare())
    channel.send_header(3)
    channel.send_body(b"four")
    close = client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 505), close.reply_text


@rule(
    "002", "4.2.6", "content/class", "A content header of another class than its method: 505 unexpected frame"
)
def test_header_of_another_class(client: RawClient, channel: RawChannel) -> None:
    channel.publish_method(routing_key=channel.declare())
    channel.send_frame(2, header(0, 0, class_id=90))
    text = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 90 instead"
    client.expect_close_and_eof(505, text, spec.Basic.Publish)


@rule(
    "002", "4.2.6", "content/interrupted", "Frames of one content come unbroken by others of the channel: 505"
)
@pytest.mark.parametrize(
    ("with_header", "text"),
    [
        (False, "expected content header for class 60, got non content header frame instead"),
        (True, "expected content body, got non content body frame instead"),
    ],
)
def test_method_inside_a_content(
    client: RawClient, channel: RawChannel, with_header: bool, text: str
) -> None:
    channel.publish_method(routing_key=channel.declare())
    if with_header:
        channel.send_header(10)
        channel.send_body(b"half ")
    channel.send(spec.Basic.Get(queue=""))
    client.expect_close_and_eof(505, f"UNEXPECTED_FRAME - {text}", spec.Basic.Publish)


@rule("002", "4.2.6", "content/orphan", "A header or body frame without its method: 505 unexpected frame")
@pytest.mark.parametrize(("kind", "payload"), [(2, header(0, 0)), (3, b"body")], ids=["header", "body"])
def test_content_without_method(client: RawClient, channel: RawChannel, kind: int, payload: bytes) -> None:
    channel.send_frame(kind, payload)
    client.expect_close_and_eof(505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead")


@framing
@rule("002", "4.3", "content/interleaved", "Contents of several channels may interleave frame by frame")
def test_contents_of_two_channels_interleave(client: RawClient) -> None:
    channels = [client.channel(number) for number in (1, 2, 3)]
    queue = channels[0].declare()
    for channel in channels:
        channel.publish_method(routing_key=queue)
    for channel in channels:
        channel.send_header(10)
    for piece in range(10):
        for channel in channels:
            channel.send_body(b"%d" % ((piece + channel.number) % 10))
    bodies = sorted(drain(channels[0], queue))
    assert bodies == [b"1234567890", b"2345678901", b"3456789012"]
