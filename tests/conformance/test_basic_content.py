"""Contents arrive as they were sent: sizes, frames, properties; and sizes that are refused."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import drain, fill, numbered, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import FRAME_BODY, RawChannel, RawClient, raw_frame, short_string, spec
from tools.brokers import Broker

unchanged = rule(
    "002", "3.1.1", "message/unchanged", "The server changes neither the body nor properties it was given"
)
framing = rule(
    "002", "4.2.6", "message/framing", "A content is a header frame and as many body frames as it takes"
)
frame_max = rule(
    "002", "4.2.3", "message/frame-max", "Content is cut to the frame-max of the one who receives it"
)
too_large = rule(
    "004", "max_message_size", "message/too-large", "A body over the maximum size is refused with 406"
)

# The bytes between class id, weight, body size and the property list: every property of the class.
ALL_FLAGS = 0b1111111111111100


def header(size: int, flags: int, properties: bytes = b"") -> bytes:
    return b"\0\x3c\0\0" + size.to_bytes(8, "big") + flags.to_bytes(2, "big") + properties


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
@rabbitmq_differs("keeps the whole body before it looks at the size")
def test_refused_content_is_not_buffered(broker: Broker, channel: RawChannel) -> None:
    queue = channel.declare()
    piece = raw_frame(FRAME_BODY, channel.number, b"x" * 100_000)
    before = broker.rss_bytes()
    channel.publish_method(routing_key=queue)
    channel.send_header(200_000_000)
    for _ in range(2000):
        channel.client.send_bytes(piece)
    channel.expect_close(406)
    channel.open()
    grown = broker.rss_bytes() - before
    assert grown < 50_000_000, f"the broker grew by {grown} bytes"


@too_large
def test_largest_message_by_default(channel: RawChannel) -> None:
    """128 MiB. Reading it back would only try the patience of the test client."""
    queue = channel.declare()
    channel.confirm_select()
    channel.publish_method(routing_key=queue)
    channel.send_header(134_217_728)
    piece = raw_frame(FRAME_BODY, channel.number, b"x" * 65_536)
    for _ in range(2048):
        channel.client.send_bytes(piece)
    channel.expect(spec.Basic.Ack, delivery_tag=1)
    channel.call(spec.Queue.Purge(queue=queue), message_count=1)


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
