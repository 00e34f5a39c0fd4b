"""Blocks of a stream: the same rows as in ordinary deliveries, for whoever asks for them and nobody else."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from embermq.client import Channel, ConsumerCancelled, Properties, connect
from embermq.client.core.block_columns import known_arguments
from embermq.client.core.columns import NAMES
from tests.support.pika_client import Client, eventually, unique
from tests.support.pika_streams import declare, fill, offsets, read_range
from tools.brokers import EmberBroker

LARGE = b"large" * 100_000  # more than a frame holds


@pytest.fixture
def channel(stored: EmberBroker) -> Iterator[Channel]:
    with connect(stored.url, reconnect=False) as connection, connection.channel() as channel:
        yield channel


def new_stream(channel: Channel, **limits: object) -> str:
    name = unique("stream")
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", **limits})
    return name


def rows(
    channel: Channel, stream: str, begin: object, end: int, **arguments: object
) -> list[tuple[Any, ...]]:
    """All columns of a range."""
    given = {"x-stream-offset": begin, "x-stream-end-offset": end}
    given |= {name.replace("_", "-"): value for name, value in arguments.items()}
    consumer = channel.consume_columns(stream, NAMES, no_ack=True, arguments=given)
    found: list[tuple[Any, ...]] = []
    with pytest.raises(ConsumerCancelled):
        while batch := consumer.fetch(1_000_000, 60):
            assert batch.body and batch.exchange and batch.routing_key and batch.properties
            texts = (batch.body, batch.exchange, batch.routing_key, batch.properties)
            assert batch.offset is not None and batch.redelivered is not None
            numbers = (memoryview(batch.offset).cast("q"), memoryview(batch.redelivered).cast("q"))
            found += [
                (*(column[row] for column in texts), *(column[row] for column in numbers))
                for row in range(batch.count)
            ]
    return found


@pytest.mark.parametrize("timed", [False, True])
def test_the_same_rows(channel: Channel, timed: bool) -> None:
    stream = new_stream(channel)
    channel.exchange_declare("blocks", "fanout")
    channel.queue_bind(stream, "blocks")
    channel.publish_batch([b"%d" % number * (number % 50) for number in range(3000)], stream)
    every = Properties(content_type="a/b", headers={"x": [1, "two"]}, message_id="m", app_id="us")
    channel.publish_batch([b"", b"x", LARGE, b"y"], "some.key", exchange="blocks", properties=every)
    channel.publish_batch([b"z" * 1000] * 500, stream, properties=Properties(headers={"k": None}))
    for begin, end in ((0, 3504), (17, 3001), (2999, 3003), ("first", 1), (3503, 3504), (5, 5)):
        ordinary = rows(channel, stream, begin, end, x_stream_timestamps=timed)
        blocks = rows(channel, stream, begin, end, x_stream_timestamps=timed, x_stream_blocks=True)
        assert blocks == ordinary
        assert len(blocks) == end - (begin if isinstance(begin, int) else 0)
    channel.queue_delete(stream)


def test_a_range_that_is_to_come(channel: Channel) -> None:
    stream = new_stream(channel)
    channel.publish_batch([b"1"], stream)
    arguments = {"x-stream-offset": 0, "x-stream-end-offset": 4, "x-stream-blocks": True}
    consumer = channel.consume_columns(stream, ("body",), no_ack=True, arguments=arguments)
    bodies: list[bytes] = []
    for number in range(2, 6):
        batch = consumer.fetch(1, 60)
        assert batch is not None and batch.body is not None
        bodies += [batch.body[row] for row in range(batch.count)]
        channel.publish_batch([b"%d" % number], stream)
    with pytest.raises(ConsumerCancelled):
        consumer.fetch(1, 60)
    assert bodies == [b"1", b"2", b"3", b"4"]
    channel.queue_delete(stream)


def test_what_retention_took_is_not_there(channel: Channel) -> None:
    limits = {"x-max-length-bytes": 300_000, "x-stream-max-segment-size-bytes": 65536}
    stream = new_stream(channel, **limits)
    for _ in range(10):
        channel.publish_batch([b"x" * 1000] * 100, stream)

    def gone() -> bool:
        return bool(rows(channel, stream, 0, 1000, x_stream_blocks=True)[0][4] > 0)

    eventually(gone)
    ordinary = rows(channel, stream, 0, 1000)
    assert rows(channel, stream, 0, 1000, x_stream_blocks=True) == ordinary
    assert ordinary[-1][4] == 999
    channel.queue_delete(stream)


def test_damage_costs_what_is_damaged_and_nothing_else(tmp_path: Path) -> None:
    with EmberBroker(data_dir=tmp_path) as broker, connect(broker.url, reconnect=False) as connection:
        with connection.channel() as channel:
            stream = new_stream(channel)
            channel.publish_batch([b"message %4d" % number * 10 for number in range(1000)], stream)
            before = rows(channel, stream, 0, 1000)
            (segment,) = tmp_path.rglob("*.segment")
            content = segment.read_bytes()
            at = content.index(b"message  500")
            with segment.open("r+b") as file:  # under the broker's hands
                file.seek(at)
                file.write(b"M")
            left = rows(channel, stream, 0, 1000, x_stream_blocks=True)
            assert left == before[:500] + before[501:]
            assert channel.queue_declare(stream, passive=True).message_count == 999


def test_damage_all_over_the_segments(tmp_path: Path) -> None:
    """Who reads blocks meets it first, others after it: both get what is sound, in order, up to the end."""
    count = 2000
    with EmberBroker(data_dir=tmp_path) as broker, connect(broker.url, reconnect=False) as connection:
        with connection.channel() as channel:
            stream = new_stream(channel, **{"x-stream-max-segment-size-bytes": 65536})
            channel.publish_batch([b"message %4d " % number * 15 for number in range(count)], stream)
            before = rows(channel, stream, 0, count)
            chance = random.Random(4)
            hit = sorted(chance.sample(range(count), 12))
            hit += [hit[0] + 1, 0, count - 1]  # neighbours, the first, the last
            for segment in tmp_path.rglob("*.segment"):
                content = segment.read_bytes()
                with segment.open("r+b") as file:  # under the broker's hands
                    for number in hit:
                        at = content.find(b"message %4d " % number)
                        if at >= 0:
                            # In the body, or in the size of the record: nothing tells where the next one is.
                            place = chance.choice([at + 50, content.rfind(stream.encode(), 0, at) - 28])
                            file.seek(place)
                            file.write(b"\xff")
            for in_blocks in (True, False):
                found = rows(channel, stream, 0, count, x_stream_blocks=in_blocks)
                assert found == [row for row in before if row[4] not in hit]
            begin = hit[5]  # in the middle of it
            assert rows(channel, stream, begin, count, x_stream_blocks=True) == [
                row for row in before if row[4] not in hit and row[4] >= begin
            ]


def test_what_it_does_not_go_with(reader: Client) -> None:
    stream = declare(reader)
    fill(reader, stream, 3)
    refused = pika.exceptions.ChannelClosedByBroker
    with pytest.raises(refused, match="invalid arg 'x-stream-blocks'"):
        read_range(reader, stream, 0, 3, x_stream_blocks="yes")
    with pytest.raises(refused, match="there are no filters with it"):
        read_range(reader, stream, 0, 3, x_stream_blocks=True, x_stream_filter="a")
    for arguments in ({"x-stream-offset": 0}, {"x-stream-offset": 0, "x-stream-end-offset": 3}):
        channel = reader.connection.channel()
        channel.basic_qos(prefetch_count=10)
        with pytest.raises(refused, match="needs 'x-stream-end-offset' and no_ack"):
            channel.basic_consume(stream, print, arguments={**arguments, "x-stream-blocks": True})


def test_what_others_see_of_it(reader: Client) -> None:
    """An ordinary client that asks for it gets the bytes of docs/streams.md, in one delivery."""
    stream = declare(reader)
    fill(reader, stream, 40)
    (seen,) = read_range(reader, stream, 10, 15, x_stream_blocks=True)
    assert seen.offset == 10
    assert seen.headers == {"x-stream-block": 5}
    block, bodies = seen.body, []
    while block:
        size, offset, header_size = struct.unpack_from("<4xIQ9xI", block)
        payload = block[25 : 25 + size]
        names = b"\x00" + bytes([len(stream)]) + stream.encode()
        assert payload[5:].startswith(names)
        bodies.append((offset, payload[5 + len(names) + header_size :]))
        block = block[25 + size :]
    assert bodies == [(number, b"%d" % number) for number in range(10, 15)]
    assert offsets(read_range(reader, stream, 10, 15)) == list(range(10, 15))


def test_brokers_that_have_no_blocks_are_not_asked_for_any() -> None:
    wanted: dict[str, object] = {"x-stream-offset": 1, "x-stream-blocks": True}
    without: dict[str, object] = {"x-stream-offset": 1}
    assert known_arguments(wanted, {"capabilities": {"embermq.stream_blocks": True}}) == wanted
    for others in ({}, {"capabilities": {}}, {"capabilities": {"embermq.stream_blocks": 1}}):
        assert known_arguments(wanted, others) == without
