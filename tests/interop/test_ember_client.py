"""EmberMQ's own client against both brokers: whatever works with one works with the other."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from embermq.client import (
    AsyncRpcClient,
    AuthenticationFailed,
    Channel,
    Connection,
    ConsumerCancelled,
    Message,
    NotFound,
    Outgoing,
    PreconditionFailed,
    Properties,
    PublishFailed,
    RpcClient,
    Stream,
    connect,
    connect_async,
    serve_rpc,
    serve_rpc_async,
)
from embermq.wire.table import Timestamp
from tools.brokers import Broker, EmberBroker, RabbitBroker

PATIENCE_S = 60.0
PERSISTENT = Properties(delivery_mode=2)


@pytest.fixture(scope="module", params=["embermq", "rabbitmq"])
def either(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One broker of each kind, which tests may restart."""
    if request.param == "rabbitmq" and not RabbitBroker.installed():
        pytest.skip("RabbitMQ is not installed: apt-get install rabbitmq-server")
    if request.param == "rabbitmq" and os.environ.get("EMBERMQ_EXPECT") == "interpreted":
        pytest.skip("RabbitMQ, slow to start, is asked in the compiled run only")
    with (EmberBroker if request.param == "embermq" else RabbitBroker)() as running:
        yield running


@pytest.fixture(scope="module")
def connection(either: Broker) -> Iterator[Connection]:
    with connect(either.url, call_timeout_s=PATIENCE_S, reconnect_delay_s=0.1) as opened:
        yield opened


@pytest.fixture
def channel(connection: Connection) -> Iterator[Channel]:
    with connection.channel() as opened:
        yield opened


@pytest.fixture
def queue(channel: Channel) -> str:
    return channel.queue_declare(f"either.{uuid.uuid4().hex}", exclusive=True).name


def test_all_properties_and_header_types(channel: Channel, queue: str) -> None:
    properties = Properties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"text": "ü", "number": 2**40, "yes": True, "list": [1, "a"], "table": {"a": None}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=Timestamp(1_700_000_000),
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.publish(b"body", queue, properties=properties)
    message = channel.get(queue)
    assert message is not None
    assert message.properties == properties
    channel.publish(message.body, queue, properties=message.raw_properties)
    again = channel.get(queue)
    assert again is not None and again.properties == properties


def test_large_batches_both_ways(channel: Channel, queue: str) -> None:
    bodies = [b"%d" % number * 20 for number in range(20_000)] + [b"x" * 500_000]
    channel.publish_batch(bodies, queue)
    got: list[bytes] = []
    with channel.consume(queue, prefetch=500) as consumer:
        while len(got) < len(bodies):
            batch = consumer.fetch(250, timeout_s=PATIENCE_S)
            assert batch
            got += [message.body for message in batch]
            consumer.ack(batch)
    assert got == bodies


def test_confirms_returns_and_refusals(channel: Channel, queue: str) -> None:
    confirmations = [channel.publish_soon(b"x", queue) for _ in range(500)]
    for confirmation in confirmations:
        confirmation.wait()
    with pytest.raises(PublishFailed) as caught:
        channel.publish_batch(
            [Outgoing(b"%d" % n, routing_key="either.no" if n % 2 else queue) for n in range(10)],
            mandatory=True,
        )
    assert [message.body for message in caught.value.returned] == [b"1", b"3", b"5", b"7", b"9"]
    full = channel.queue_declare(
        exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    channel.publish(b"fits", full.name)
    with pytest.raises(PublishFailed) as caught:
        channel.publish(b"too much", full.name)
    assert caught.value.nacked == 1


def test_settling_cancelling_and_deleting(channel: Channel, queue: str) -> None:
    channel.publish_batch([b"1", b"2", b"3", b"4"], queue)
    consumer = channel.consume(queue)
    first, second, third, fourth = consumer.fetch_all(4, PATIENCE_S)
    first.ack()
    second.nack(requeue=True)
    third.reject()
    fourth.ack()
    again = consumer.fetch_all(1, PATIENCE_S)[0]
    assert (again.body, again.redelivered) == (b"2", True)
    again.ack()
    channel.queue_delete(queue)
    with pytest.raises(ConsumerCancelled):
        next(consumer)


def test_errors(connection: Connection, either: Broker) -> None:
    with pytest.raises(NotFound) as caught:
        connection.channel().consume("either.no-such-queue")
    assert (caught.value.reply_code, caught.value.method) == (404, "basic.consume")
    with connection.channel() as channel:
        name = channel.queue_declare("either.exclusive", exclusive=True).name
        with pytest.raises(PreconditionFailed):
            connection.channel().queue_declare(name, exclusive=True, arguments={"x-max-length": 5})
    with pytest.raises(AuthenticationFailed):
        connect(f"amqp://guest:wrong@{either.host}:{either.port}/")
    with pytest.raises(AuthenticationFailed):
        connect(f"amqp://guest:guest@{either.host}:{either.port}/no-such-vhost")


def test_transactions_and_the_rest(connection: Connection, channel: Channel, queue: str) -> None:
    with connection.channel(confirms=False) as tx:
        with tx.transaction():
            tx.publish(b"kept", queue)
        with pytest.raises(ZeroDivisionError), tx.transaction():
            tx.publish(b"dropped", queue)
            raise ZeroDivisionError
    channel.exchange_declare("either.fanout", "fanout", auto_delete=True)
    channel.exchange_bind("either.fanout", "amq.topic", "a.#")
    channel.queue_bind(queue, "either.fanout")
    channel.publish(b"routed", "a.b", "amq.topic", mandatory=True)
    message = channel.get(queue)
    assert message is not None and message.message_count == 1
    channel.recover()
    assert channel.queue_purge(queue) == 2
    channel.exchange_unbind("either.fanout", "amq.topic", "a.#")
    channel.queue_unbind(queue, "either.fanout")


def test_remote_calls(connection: Connection, queue: str) -> None:
    with serve_rpc(connection, queue, lambda message: message.body[::-1]), RpcClient(connection) as client:
        assert client.call(b"abc", queue).body == b"cba"
        with pytest.raises(PublishFailed):
            client.call(b"abc", "either.nobody")


def test_streams(channel: Channel) -> None:
    stream = Stream(channel, f"either-{uuid.uuid4().hex}").declare(max_age="1h")
    channel.publish_batch([b"%d" % number for number in range(300)], stream.name)
    assert stream.first_offset() == 0
    with stream.consume(100, end_offset=200, prefetch=30) as consumer:
        offsets = []
        for message in consumer:
            offsets.append(message.stream_offset)
            message.ack()
    assert offsets == list(range(100, 200))
    assert stream.next_offset() == 300
    channel.queue_delete(stream.name)


async def test_coroutines(either: Broker) -> None:
    async with await connect_async(either.url, call_timeout_s=PATIENCE_S) as connection:
        channel = await connection.channel()
        queue = (await channel.queue_declare(exclusive=True)).name
        await asyncio.gather(*(channel.publish(b"%d" % number, queue) for number in range(2000)))
        got = []
        async with await channel.consume(queue, timeout_s=PATIENCE_S) as consumer:
            async for message in consumer:
                got.append(int(message.body))
                message.ack()
                if len(got) == 2000:
                    break
        assert got == list(range(2000))

        async def shout(message: Message) -> bytes:
            return message.body.upper()

        await serve_rpc_async(connection, queue, shout)
        async with await AsyncRpcClient.open(connection) as client:
            answers = await asyncio.gather(*(client.call(b"a%d" % n, queue) for n in range(50)))
            assert [answer.body for answer in answers] == [b"A%d" % n for n in range(50)]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_a_killed_broker_comes_back(connection: Connection, either: Broker) -> None:
    channel = connection.channel()
    channel.queue_declare("either.durable", durable=True)
    channel.exchange_declare("either.gone", "topic")
    unnamed = channel.queue_declare(exclusive=True)
    channel.queue_bind(unnamed.name, "either.gone", "#")
    consumer = channel.consume(unnamed.name)
    channel.publish_batch([b"%d" % n for n in range(100)], "either.durable", properties=PERSISTENT)
    either.kill()
    eventually(lambda: not connection.is_open)
    waiting = channel.publish_batch_soon(
        [b"%d" % n for n in range(100, 200)], "either.durable", properties=PERSISTENT
    )
    either.start()
    waiting.wait()
    channel.publish(b"hello", "key", "either.gone", mandatory=True)
    (message,) = consumer.fetch_all(1, PATIENCE_S)
    assert message.body == b"hello"
    got = connection.channel().consume("either.durable").fetch_all(200, PATIENCE_S)
    assert [int(message.body) for message in got] == list(range(200))
