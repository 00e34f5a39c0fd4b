"""Deliveries as columns: the same messages as objects would be, however the bytes are cut."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.client import Channel, ConnectionClosed, ConsumerCancelled, Properties, connect
from embermq.client.core.block_columns import columns_for
from embermq.client.core.columns import NAMES, ColumnBatch, Columns, Values
from embermq.client.core.inbox import Inbox
from embermq.client.errors import ChannelClosed, ConnectionLost
from embermq.testing import EmbeddedBroker
from embermq.wire.frame import HEARTBEAT_FRAME, content_frames, content_header, method_frame
from embermq.wire.methods import BasicDeliver, ChannelClose
from tests.support.scripted_broker import FRAME_MAX, Script, delivery, inbox

EVERYTHING = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"x-stream-offset": 2**40, "text": "x", "table": {"a": [1, None]}},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="1000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="u",
    app_id="a",
    cluster_id="k",
)
BODIES = [b"", b"x", b"y" * (3 * FRAME_MAX), b"z" * 100, b""]


def all_of(values: Values | None, count: int) -> list[bytes]:
    assert values is not None
    return [values[index] for index in range(count)]


def numbers(values: bytearray | None) -> list[int]:
    assert values is not None
    return array("q", bytes(values)).tolist()


def scripted(wanted: tuple[str, ...] = NAMES, *, no_ack: bool = False) -> tuple[Script, Inbox]:
    script = Script()
    script.connect()
    made = inbox(script.channel(), no_ack=no_ack)
    made.columns = Columns(wanted)
    return script, made


def taken(made: Inbox) -> ColumnBatch:
    return made.take_columns(1)


def deliveries() -> bytes:
    frames = [
        delivery(1, "tag", number + 1, body, key=f"key.{number}", properties=EVERYTHING.encode())
        for number, body in enumerate(BODIES)
    ]
    return HEARTBEAT_FRAME.join(frames)


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, len(deliveries())), max_size=12))
def test_frames_cut_anywhere(cuts: list[int]) -> None:
    script, made = scripted()
    data, kept = deliveries(), b""
    bodies: list[bytes] = []
    keys: list[bytes] = []
    borders = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(borders):
        kept += data[start:stop]
        kept = kept[script.engine.feed(bytearray(kept), len(kept)) :]
        batch = taken(made)  # also in the middle of a message
        bodies += all_of(batch.body, batch.count)
        keys += all_of(batch.routing_key, batch.count)
        assert numbers(batch.offset) == [2**40] * batch.count
        for index in range(batch.count):
            message = batch.message(index)
            assert (message.properties, message.exchange) == (EVERYTHING, "exchange")
    assert kept == b"" and bodies == BODIES
    assert keys == [b"key.%d" % number for number in range(len(BODIES))]
    assert batch.last_tag == len(BODIES)


def test_only_what_is_wanted() -> None:
    script, made = scripted(("routing_key",))
    script.say(delivery(1, "tag", 1, b"body") + delivery(1, "tag", 2, b""))
    batch = taken(made)
    assert (batch.count, all_of(batch.routing_key, 2)) == (2, [b"key", b"key"])
    assert batch.body is batch.exchange is batch.properties is batch.offset is batch.redelivered is None
    with pytest.raises(ValueError, match="there is no column 'colour'"):
        Columns(["colour"])


def test_redelivered_and_no_offset() -> None:
    script, made = scripted()
    again = method_frame(1, BasicDeliver("tag", 2, True, "", "k"))
    content = content_frames(1, content_header(1, b"\0\0"), b"2", FRAME_MAX)
    script.say(delivery(1, "tag", 1, b"1") + again + content)
    batch = taken(made)
    assert (numbers(batch.redelivered), numbers(batch.offset)) == ([0, 1], [-1, -1])
    assert [batch.message(index).redelivered for index in (0, 1)] == [False, True]


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_connection_that_breaks_in_a_message(no_ack: bool) -> None:
    """What waits comes again, unless it counts as delivered; half a message never counts."""
    script, made = scripted(no_ack=no_ack)
    data = delivery(1, "tag", 1, b"one") + delivery(1, "tag", 2, b"t" * 100)
    script.engine.feed(bytearray(data), len(data) - 50)
    script.engine.lost(ConnectionLost("gone"), final=False)
    script.connect()
    script.say(delivery(1, "tag", 1, b"next"))
    batch = taken(made)
    assert all_of(batch.body, batch.count) == ([b"one", b"next"] if no_ack else [b"next"])
    assert all_of(batch.routing_key, batch.count) == [b"key"] * batch.count


def test_a_channel_that_closes_in_a_message() -> None:
    script, made = scripted()
    whole, half = delivery(1, "tag", 1, b"one"), delivery(1, "tag", 2, b"two")
    script.say(whole + half[: -len(b"two") - 8] + method_frame(1, ChannelClose(404, "NOT_FOUND")))
    assert isinstance(made.error, ChannelClosed)
    batch = taken(made)
    assert all_of(batch.body, batch.count) == [b"one"]


HEADER = content_frames(1, content_header(4, b"\0\0"), b"", FRAME_MAX)
METHOD = method_frame(1, BasicDeliver("tag", 1, False, "e", "k"))


@pytest.mark.parametrize(
    "frames",
    [
        METHOD + METHOD,
        METHOD + HEADER + HEADER,
        METHOD + content_frames(1, content_header(1, b"\0\0"), b"two", FRAME_MAX),
        METHOD.replace(b"\x01e\x01k", b"\x01e\x02k"),
    ],
    ids=["no content", "two headers", "too much", "names too long"],
)
def test_frames_in_the_wrong_order(frames: bytes) -> None:
    script, made = scripted()
    script.engine.feed(bytearray(frames), len(frames))
    assert isinstance(script.end, ConnectionLost)
    assert taken(made).count == 0


def test_too_much_stops_reading() -> None:
    script, made = scripted(("body",))
    data = bytearray(delivery(1, "tag", 1, b"x" * FRAME_MAX) * 100)
    while script.engine.congested is None:
        script.engine.feed(data, len(data))
    assert script.engine.congested is made
    assert taken(made).count > 1000
    script.engine.relieve(made)
    assert script.engine.congested is None and made.buffered_bytes == 0


# -- blocks of a stream


def block(count: int, promised: int | None = None, size: int = 100) -> tuple[bytes, bytes]:
    """The properties and the body of a delivery."""
    records = b""
    for offset in range(count):
        content = content_header(size, b"\x00\x00") + b"%d" % (offset % 10) * size
        payload = struct.pack("<IB", 14, 0) + b"\x00\x01k" + content
        records += struct.pack("<IIQQB", 0, len(payload), offset, 1000 + offset, 1) + payload
    headers = {"x-stream-block": 2**40, "x-stream-offset": 2**40}
    properties = Properties(headers=headers).encode()
    properties = properties.replace((2**40).to_bytes(8, "big"), (promised or count).to_bytes(8, "big"), 1)
    return properties, records


def scripted_blocks() -> tuple[Script, Inbox]:
    script, made = scripted(no_ack=True)
    made.columns = columns_for(NAMES, {"x-stream-blocks": True})
    return script, made


@settings(deadline=None)
@given(data=st.data())
def test_blocks_cut_anywhere(data: st.DataObject) -> None:
    sizes = [(3, 100), (1, 5 * FRAME_MAX), (60, 200), (2, 0)]
    frames = b""
    for number, (count, size) in enumerate(sizes):
        properties, body = block(count, size=size)
        frames += delivery(1, "tag", number + 1, body, properties=properties)
    script, made = scripted_blocks()
    kept = b""
    borders = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=12)))
    for start, stop in pairwise([0, *borders, len(frames)]):
        kept += frames[start:stop]
        kept = kept[script.engine.feed(bytearray(kept), len(kept)) :]
    batch = taken(made)
    assert (batch.count, batch.last_tag, kept) == (66, 4, b"")
    assert all_of(batch.body, 66) == [b"%d" % (n % 10) * size for count, size in sizes for n in range(count)]
    assert all_of(batch.routing_key, 66) == [b"k"] * 66
    assert numbers(batch.offset) == [number for count, _ in sizes for number in range(count)]


@pytest.mark.parametrize(
    ("properties", "body", "problem"),
    [
        (block(3)[0], block(3)[1][:-1], "ends in the middle of its record 2"),
        (block(3)[0], block(2)[1], "has 2 messages, not 3"),
        (block(3, 4)[0], block(3)[1], "has 3 messages, not 4"),
        (block(1)[0], b"\x00" * 60, "damaged at its record 0"),
        (b"\x00\x00", b"plain", "a delivery that is no block"),
    ],
)
def test_a_block_that_is_none(properties: bytes, body: bytes, problem: str) -> None:
    script, made = scripted_blocks()
    data = bytearray(delivery(1, "tag", 1, body, properties=properties))
    script.engine.feed(data, len(data))
    assert isinstance(script.end, ConnectionLost) and problem in str(script.end)
    assert taken(made).count == 0


def test_a_connection_that_breaks_in_a_block() -> None:
    script, made = scripted_blocks()
    script.say(delivery(1, "tag", 1, block(5)[1], properties=block(5)[0]))
    large = bytearray(delivery(1, "tag", 2, block(3, size=3000)[1], properties=block(3)[0]))
    half = len(large) * 2 // 3
    script.engine.feed(large, half)
    script.engine.lost(ConnectionLost("gone"), final=False)
    batch = taken(made)
    assert (batch.count, batch.last_tag) == (5, 1) and len(all_of(batch.body, 5)) == 5


# -- with a broker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as made:
        yield made


@pytest.fixture
def channel(broker: EmbeddedBroker) -> Iterator[Channel]:
    with broker.vhost() as vhost, connect(broker.url_of(vhost)) as connection:
        with connection.channel(prefetch=None) as made:
            yield made


def test_consuming_columns(channel: Channel) -> None:
    channel.queue_declare("q")
    bodies = [b"%d" % number for number in range(5000)]
    channel.publish_batch(bodies, "q")
    found: list[bytes] = []
    with channel.consume_columns("q", ("body", "routing_key")) as consumer:
        while len(found) < len(bodies):
            batch = consumer.fetch(len(bodies) - len(found), 30)
            assert batch is not None
            found += all_of(batch.body, batch.count)
            consumer.ack(batch)
        assert consumer.fetch(1, 0) is None
    assert found == bodies
    assert channel.queue_declare("q").message_count == 0


def test_what_is_not_acked_stays(channel: Channel) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"%d" % number for number in range(10)], "q")
    with channel.connection.channel() as other:
        consumer = other.consume_columns("q")
        batch = consumer.fetch(10, 30)
        assert batch is not None and batch.count == 10
        consumer.ack(batch, 4)
    left = channel.consume("q").fetch_all(6, 30)
    assert [message.body for message in left] == [b"%d" % number for number in range(4, 10)]


def test_the_end_of_a_range_and_of_a_consumer(channel: Channel) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.publish_batch([b"%d" % number for number in range(20)], "s")
    arguments = {"x-stream-offset": 5, "x-stream-end-offset": 12}
    consumer = channel.consume_columns("s", ("body", "offset"), no_ack=True, arguments=arguments)
    offsets: list[int] = []
    with pytest.raises(ConsumerCancelled):
        while batch := consumer.fetch(1000, 30):
            offsets += numbers(batch.offset)
    assert offsets == list(range(5, 12))
    again = channel.consume_columns("s", ("body", "offset"), no_ack=True, arguments=arguments)
    batch = again.fetch(7, 30)  # not taken for deliveries to the first one, which are all read at once
    assert batch is not None and numbers(batch.offset) == offsets
    channel.queue_declare("q")
    cancelled = channel.consume_columns("q")
    cancelled.cancel()
    assert cancelled.fetch(1, 30) is None
    cut_off = channel.consume_columns("q")
    channel.connection.close()
    with pytest.raises(ConnectionClosed):
        cut_off.fetch(1, 30)
