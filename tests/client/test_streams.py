"""Streams and remote calls of the blocking client, against a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from embermq.client import (
    AsyncRpcClient,
    AsyncStream,
    AsyncSuperStream,
    Channel,
    ClientError,
    Connection,
    ConnectionClosed,
    Message,
    PublishFailed,
    RpcClient,
    RpcFailed,
    Stream,
    SuperStream,
    Timeout,
    connect,
    connect_async,
    serve_rpc,
    serve_rpc_async,
)
from tools.brokers import Broker, EmberBroker


@pytest.fixture
def stream(channel: Channel) -> Iterator[Stream]:
    made = Stream(channel, f"stream-{uuid.uuid4().hex}").declare(max_age="7D")
    yield made
    channel.queue_delete(made.name)


def filled(stream: Stream, count: int) -> None:
    stream.channel.publish_batch([b"%d" % number for number in range(count)], stream.name)


@pytest.mark.usefixtures("only_ember")
def test_every_place_to_begin(stream: Stream) -> None:
    filled(stream, 10)
    for offset, expected in (("first", 0), (4, 4), ("last", 9), (timedelta(hours=1), 0)):
        with stream.consume(offset, prefetch=100) as consumer:
            message = consumer.fetch(1, timeout_s=60)[0]
            assert (message.stream_offset, message.body) == (expected, b"%d" % expected)
    with stream.consume(prefetch=100) as consumer:
        stream.channel.publish(b"new", stream.name)
        assert consumer.fetch(1, timeout_s=60)[0].stream_offset == 10


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_range_ends_by_itself(stream: Stream, no_ack: bool, target: str) -> None:
    if no_ack and target == "rabbitmq":
        pytest.skip("RabbitMQ delivers streams with acks only")
    filled(stream, 1000)
    offsets = []
    for message in stream.consume(100, end_offset=900, no_ack=no_ack, prefetch=50):
        offsets.append(message.stream_offset)
        message.ack()
    assert offsets == list(range(100, 900))


def test_looking_without_consuming(stream: Stream) -> None:
    assert (stream.first_offset(), stream.next_offset(), stream.offset_at("first")) == (None, 0, None)
    filled(stream, 5)
    time.sleep(1.1)  # times in AMQP are whole seconds
    middle = datetime.now(UTC)
    filled(stream, 5)
    assert (stream.first_offset(), stream.next_offset(), stream.offset_at(middle)) == (0, 10, 5)


@pytest.mark.usefixtures("only_ember")
def test_a_named_consumer_goes_on_where_it_was(stream: Stream) -> None:
    filled(stream, 10)
    with stream.consume("first", name="reader", prefetch=100) as consumer:
        for message in consumer.fetch_all(4, timeout_s=60):
            message.ack()
    with stream.consume("first", name="reader") as consumer:
        assert consumer.fetch(1, timeout_s=60)[0].stream_offset == 4


@pytest.mark.usefixtures("only_ember")
def test_a_super_stream(channel: Channel) -> None:
    by_hash = SuperStream(channel, "super-hash").declare(3)
    by_key = SuperStream(channel, "super-key").declare(routing_keys=["a", "b"])
    with pytest.raises(ValueError, match="either"):
        SuperStream(channel, "super-none").declare()
    for number in range(30):
        channel.publish(b"x", f"key {number}", "super-hash", mandatory=True)
        channel.publish(b"x", "a" if number % 3 else "b", "super-key", mandatory=True)
    assert sum(part.next_offset() for part in by_hash.partitions()) == 30
    assert [part.next_offset() for part in by_key.partitions()] == [20, 10]
    with by_hash.consume("first", name="group", prefetch=5, timeout_s=60) as consumer:
        seen = set()
        for message in consumer:
            seen.add(message.routing_key)
            message.ack()
            if len(seen) == 30:
                break
    assert seen == {f"key {number}" for number in range(30)}
    with by_key.consume("first", prefetch=5, timeout_s=60) as consumer:
        keys = []
        for message in consumer:
            keys.append(message.routing_key)
            message.ack()
            if len(keys) == 30:
                break
    assert (keys.count("a"), keys.count("b")) == (20, 10)
    by_hash.delete()
    by_key.delete()
    with pytest.raises(ValueError, match="no partitions"):
        by_hash.consume()
    assert by_hash.partitions() == []


@pytest.mark.usefixtures("only_ember")
def test_the_same_for_coroutines(ember: Broker) -> None:
    async def run() -> None:
        async with await connect_async(ember.url) as connection:
            channel = await connection.channel()
            stream = await AsyncStream(channel, "aio-stream").declare()
            await channel.publish_batch([b"%d" % number for number in range(100)], stream.name)
            assert (await stream.first_offset(), await stream.next_offset()) == (0, 100)
            consumer = await stream.consume(10, end_offset=20, no_ack=True)
            assert [message.stream_offset async for message in consumer] == list(range(10, 20))
            await channel.queue_delete(stream.name)
            parted = await AsyncSuperStream(channel, "aio-super").declare(2)
            assert [part.name for part in await parted.partitions()] == ["aio-super-0", "aio-super-1"]
            await asyncio.gather(*(channel.publish(b"x", str(n), "aio-super") for n in range(20)))
            async with await parted.consume("first", timeout_s=60) as consumer:
                keys = [int((await anext(consumer)).routing_key) for _ in range(20)]
                assert sorted(keys) == list(range(20))
            await parted.delete()

    asyncio.run(run())


def test_a_reconnection_goes_on_behind_what_was_settled() -> None:
    with EmberBroker() as broker, connect(broker.url, reconnect_delay_s=0.05) as connection:
        channel = connection.channel()
        stream = Stream(channel, "mortal").declare()
        filled(stream, 100)
        consumer = stream.consume("first", prefetch=10)
        bulk_channel = connection.channel()
        bulk = Stream(bulk_channel, "mortal").consume("first", no_ack=True, end_offset=150)
        offsets = [message.stream_offset for message in bulk.fetch_all(100, timeout_s=60)]
        for message in consumer.fetch_all(7, timeout_s=60):
            message.ack()
        broker.kill()
        broker.start()
        filled(stream, 50)
        seen = [message.stream_offset for message in consumer.fetch_all(10, timeout_s=60)]
        assert seen == list(range(7, 17))
        offsets += [message.stream_offset for message in bulk]
        assert offsets == list(range(150))


def double(message: Message) -> bytes:
    if message.body == b"bad":
        raise ValueError("not a number")
    return b"%d" % (int(message.body) * 2)


def test_remote_calls(connection: Connection, queue: str) -> None:
    with serve_rpc(connection, queue, double), RpcClient(connection) as client:
        assert [client.call(b"%d" % n, queue).body for n in (1, 21)] == [b"2", b"42"]
        with pytest.raises(RpcFailed, match="ValueError: not a number"):
            client.call(b"bad", queue)
        with pytest.raises(PublishFailed):
            client.call(b"x", "client.nobody")
    with RpcClient(connection) as client, pytest.raises(Timeout):
        client.call(b"1", queue, timeout_s=0.05)


def test_a_remote_call_ends_with_its_connection(ember: Broker) -> None:
    with connect(ember.url) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        client = RpcClient(connection)
        closing = threading.Timer(0.05, connection.close)
        closing.start()
        with pytest.raises(ConnectionClosed, match="closed by its user"):
            client.call(b"1", queue, timeout_s=600)
        closing.join()

    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = (await channel.queue_declare(exclusive=True)).name
            client = await AsyncRpcClient.open(connection)
            call = asyncio.create_task(client.call(b"1", queue, timeout_s=600))
            while not client.waiters or channel.core.unconfirmed.count:
                await asyncio.sleep(0.01)
            await client.close()
            with pytest.raises(ClientError, match="closed"):
                await call

    asyncio.run(run())


def test_serving_remote_calls_leaves_no_channel(ember: Broker) -> None:
    with connect(ember.url) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        with serve_rpc(connection, queue, double, concurrency=3), RpcClient(connection) as client:
            assert client.call(b"1", queue).body == b"2"
        deadline_s = time.monotonic() + 60
        while len(connection.engine.channels) > 1:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    async def run() -> None:
        async def answer(message: Message) -> bytes:
            return double(message)

        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = (await channel.queue_declare(exclusive=True)).name
            async with await serve_rpc_async(connection, queue, answer):
                async with await AsyncRpcClient.open(connection) as client:
                    assert (await client.call(b"1", queue)).body == b"2"
            async with asyncio.timeout(60):
                while len(connection.engine.channels) > 1:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
