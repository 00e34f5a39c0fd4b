"""Reading a part of a stream and no more; what EmberMQ does beyond RabbitMQ."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, eventually
from tests.support.pika_streams import declare, fill, offsets, read, read_range
from tools.brokers import EmberBroker


def test_a_range_has_an_end(reader: Client) -> None:
    stream = declare(reader)
    fill(reader, stream, 20, headers={"list": [1, "two"]})
    seen = read_range(reader, stream, 5, 12)
    assert offsets(seen) == list(range(5, 12))
    assert [one.body for one in seen] == [b"%d" % number for number in range(5, 12)]
    assert all(one.headers == {"list": [1, "two"]} for one in seen)  # RabbitMQ's streams lose lists
    assert offsets(read_range(reader, stream, "first", 3)) == [0, 1, 2]
    assert read_range(reader, stream, 5, 5) == []
    assert read_range(reader, stream, 9, 3) == []


def test_when_the_broker_took_a_message(reader: Client) -> None:
    stream = declare(reader)
    begin = time.time()
    # What another stream has said of it is not kept.
    fill(reader, stream, 3, headers={"x": 1, "x-stream-timestamp": 5, "x-stream-offset": 7})
    end = time.time()
    seen = read_range(reader, stream, "first", 3, x_stream_timestamps=True)
    assert offsets(seen) == [0, 1, 2]
    times = [one.headers.pop("x-stream-timestamp") for one in seen]
    assert times == sorted(times)
    assert begin - 10 <= times[0] / 1000 and times[-1] / 1000 <= end + 10
    assert [one.headers for one in seen] == [{"x": 1}] * 3
    assert [one.headers for one in read_range(reader, stream, "first", 3)] == [{"x": 1}] * 3
    (again, *_) = read(reader, stream, 3, x_stream_offset="first", x_stream_timestamps=True)
    assert again.headers["x-stream-timestamp"] == times[0]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="invalid arg 'x-stream-timestamps'"):
        read_range(reader, stream, "first", 3, x_stream_timestamps="yes")


def test_a_range_waits_for_its_end(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 3)
    channel = reader.connection.channel()
    bodies: list[bytes] = []
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(
        stream,
        lambda _c, _m, _p, body: bodies.append(body),
        auto_ack=True,
        arguments={"x-stream-offset": "first", "x-stream-end-offset": 5},
    )
    with Client(stored.port) as writer:
        fill(writer, stream, 10, first=3)

    def heard() -> bool:
        reader.connection.process_data_events(0.05)
        return bool(cancelled)

    eventually(heard)
    assert bodies == [b"0", b"1", b"2", b"3", b"4"]


def test_a_range_with_acks(reader: Client) -> None:
    stream = declare(reader)
    fill(reader, stream, 30)
    channel = reader.connection.channel()
    channel.basic_qos(prefetch_count=4)
    arguments = {"x-stream-offset": 10, "x-stream-end-offset": 25}
    bodies = []
    for method, _, body in channel.consume(stream, arguments=arguments, inactivity_timeout=60):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
    assert bodies == [b"%d" % number for number in range(10, 25)]


def test_a_range_that_loses_its_stream_is_no_whole_range(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 3)
    channel = reader.connection.channel()
    arguments = {"x-stream-offset": "first", "x-stream-end-offset": 100}
    channel.basic_consume(stream, lambda *_: None, auto_ack=True, arguments=arguments)
    with Client(stored.port) as other:
        other.channel.queue_delete(stream)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        while True:
            channel.connection.process_data_events(0.05)
            channel.basic_qos(prefetch_count=1)
    assert closed.value.reply_code == 404
    assert closed.value.reply_text == f"NOT_FOUND - no queue '{stream}' in vhost '/'"


@pytest.mark.parametrize("end", [-1, "x", True])
def test_ends_that_are_none(reader: Client, end: Any) -> None:
    stream = declare(reader)
    reader.channel.basic_qos(prefetch_count=1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-stream-end-offset"):
        reader.channel.basic_consume(stream, print, arguments={"x-stream-end-offset": end})


@pytest.mark.parametrize("offset", ["foo", "", "h", True, None, "5"])
def test_offsets_that_rabbitmq_fails_at(reader: Client, offset: Any) -> None:
    stream = declare(reader)
    reader.channel.basic_qos(prefetch_count=1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="invalid_stream_offset_arg"):
        reader.channel.basic_consume(stream, print, arguments={"x-stream-offset": offset})


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_offsets_survive(stored: EmberBroker, way: str) -> None:
    with Client(stored.port) as client:
        stream = declare(client)
        fill(client, stream, 500, size=500, delivery_mode=1)
    if way == "kill":
        stored.kill()
        stored.start()
    else:
        stored.restart()
    with Client(stored.port) as client:
        fill(client, stream, 10, first=500)
        seen = read_range(client, stream, "first", 510)
        assert offsets(seen) == list(range(510))
        assert [one.body for one in seen] == [b"%d" % number for number in range(510)]


def test_the_oldest_segments_go(reader: Client) -> None:
    stream = declare(reader, x_max_length_bytes=500_000, x_stream_max_segment_size_bytes=100_000)
    fill(reader, stream, 400, size=5000)
    first = read(reader, stream, 1, x_stream_offset="first")[0].offset
    kept = 400 - first
    assert 500_000 // 5200 - 25 < kept < 500_000 // 5000 + 25
    seen = read_range(reader, stream, 0, 400)
    assert offsets(seen) == list(range(first, 400))
    assert reader.count(stream) == kept


def test_old_segments_go(reader: Client) -> None:
    stream = declare(reader, x_max_age="1s", x_stream_max_segment_size_bytes=100_000)
    fill(reader, stream, 100, size=5000)

    def first() -> int:
        return read(reader, stream, 1, x_stream_offset="first")[0].offset

    eventually(lambda: first() >= 80)  # but for the newest segment, of twenty messages
    assert first() < 100


def test_a_stuck_consumer_hinders_nobody(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 300, size=10_000)
    channel = reader.connection.channel()
    channel.basic_qos(prefetch_count=1)
    got: list[object] = []
    channel.basic_consume(
        stream, lambda *arguments: got.append(arguments), arguments={"x-stream-offset": "first"}
    )
    while not got:
        reader.connection.process_data_events(0.05)
    with Client(stored.port) as other:
        assert len(read_range(other, stream, 0, 300)) == 300
        assert offsets(read(other, stream, 300, prefetch=7, x_stream_offset=0)) == list(range(300))
    assert len(got) == 1


def test_confirms_and_transactions(connect: Callable[[], Client]) -> None:
    client = connect()
    stream = declare(client)
    client.channel.tx_select()
    for number in range(3):
        client.publish(stream, b"%d" % number)
    client.channel.tx_rollback()
    client.publish(stream, b"kept")
    client.channel.tx_commit()
    other = connect()
    assert [one.body for one in read_range(other, stream, "first", 1)] == [b"kept"]
