"""Queues, exchanges and pools as objects; times as Python has them; what objects say of themselves."""

from __future__ import annotations

import asyncio
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from embermq.client import (
    AsyncChannelPool,
    AsyncConnectionPool,
    Channel,
    ChannelPool,
    Connection,
    ConnectionClosed,
    ConnectionPool,
    Message,
    NotFound,
    NotSettled,
    Properties,
    Timeout,
    connect,
    connect_async,
)
from tests.client.test_convenience import got, left_in, wait_until
from tools.brokers import Broker


def test_a_queue_and_an_exchange(channel: Channel) -> None:
    name = f"objects.{uuid.uuid4().hex}"
    exchange = channel.exchange(name).declare("topic", auto_delete=True)
    inner = channel.exchange(f"{name}.inner").declare("fanout", auto_delete=True)
    queue = channel.queue().declare(exclusive=True)
    assert queue.name and repr(queue) == f"<Queue '{queue.name}'>"
    inner.bind(exchange, "logs.#")
    queue.bind(inner)
    exchange.publish(b"one", "logs.warning", mandatory=True)
    queue.publish(b"two")
    assert queue.look().message_count == 2
    first = queue.get()
    assert first is not None and first.body == b"one"
    first.ack()
    with queue.consume(prefetch=1, timeout_s=60) as consumer:
        message = next(consumer)
        assert message.body == b"two"
        message.ack()
    queue.unbind(inner)
    inner.unbind(exchange, "logs.#")
    queue.publish(b"three")
    assert queue.purge() == 1 and queue.delete() == 0
    exchange.delete()


def test_a_queue_and_an_exchange_of_coroutines(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            exchange = await channel.exchange(f"objects.{uuid.uuid4().hex}").declare("fanout")
            queue = await channel.queue().declare(exclusive=True)
            await queue.bind(exchange)
            await exchange.publish(b"one")
            await queue.publish(b"two")
            assert (await queue.look()).message_count == 2
            message = await queue.get(no_ack=True)
            assert message is not None and message.body == b"one"
            async with await queue.consume(timeout_s=60) as consumer:
                async for message in consumer:
                    message.ack()
                    assert message.body == b"two"
                    break
            await queue.unbind(exchange)
            await exchange.delete()
            assert await queue.purge() == 0
            await queue.delete()

    asyncio.run(run())


# -- pools


def test_a_pool_of_channels(connection: Connection, queue: str) -> None:
    with ChannelPool(connection, size=2) as pool:
        with pool.acquire() as first, pool.acquire() as second:
            assert first is not second
            with pytest.raises(Timeout), pool.acquire(timeout_s=0.01):
                pass
        with pool.acquire() as again:
            assert again in (first, second)
            with pytest.raises(NotFound):
                again.queue_declare("no such queue", passive=True)
        with pool.acquire() as third, pool.acquire() as fourth:
            assert again not in (third, fourth), "a closed channel is replaced"
            third.consume(queue)
        wait_until(lambda: third.is_closed)  # the next user must not get its messages
        assert "at most 2" in repr(pool)
    assert fourth.is_closed
    with pytest.raises(ConnectionClosed), pool.acquire():
        pass


def test_threads_share_a_pool(ember: Broker, channel: Channel, queue: str) -> None:
    channel.queue_declare(f"{queue}.pool")
    with ConnectionPool(ember.url, size=2) as connections, connections.acquire() as connection:
        with ChannelPool(connection, size=3) as pool:

            def publish() -> None:
                for _ in range(20):
                    with pool.acquire() as one:
                        one.publish(b"x", f"{queue}.pool")

            threads = [threading.Thread(target=publish) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert connection.is_closed
    assert channel.queue_delete(f"{queue}.pool") == 160


def test_tasks_share_a_pool(ember: Broker) -> None:
    async def run() -> None:
        async with AsyncConnectionPool(ember.url, size=2) as connections, connections.acquire() as connection:
            async with AsyncChannelPool(connection, size=3) as pool:
                name = f"pool.{uuid.uuid4().hex}"

                async def publish() -> None:
                    async with pool.acquire() as channel:
                        await channel.publish(b"x", name)

                async with pool.acquire() as channel:
                    await channel.queue_declare(name, auto_delete=True)
                await asyncio.gather(*(publish() for _ in range(50)))
                async with pool.acquire() as channel:
                    assert await channel.queue_delete(name) == 50
                async with pool.acquire(), pool.acquire(), pool.acquire():
                    with pytest.raises(Timeout):
                        async with pool.acquire(timeout_s=0.01):
                            pass
        assert connection.is_closed

    asyncio.run(run())


# -- times


def test_times_of_a_message(channel: Channel, queue: str) -> None:
    moment = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
    zoned = moment.astimezone(tz=None)
    properties = Properties(
        timestamp=zoned, expiration=timedelta(minutes=2), headers={"at": moment, "for": timedelta(seconds=5)}
    )
    assert (properties.timestamp, properties.expiration) == (int(moment.timestamp()), "120000")
    channel.publish(b"x", queue, properties=properties)
    message = got(channel, queue)
    assert message.timestamp == moment
    assert message.expiration == timedelta(minutes=2)
    assert message.headers == {"at": int(moment.timestamp()), "for": 5000}
    message.ack()
    channel.publish(b"y", queue)
    plain = got(channel, queue)
    assert plain.timestamp is None and plain.expiration is None
    plain.ack()


def test_times_in_arguments(channel: Channel) -> None:
    name = f"times.{uuid.uuid4().hex}"
    arguments = {"x-message-ttl": timedelta(milliseconds=1), "x-expires": timedelta(hours=1)}
    queue = channel.queue(name).declare(arguments=arguments)
    queue.publish(b"gone soon")
    wait_until(lambda: queue.look().message_count == 0)
    channel.queue(name).declare(arguments={"x-message-ttl": 1, "x-expires": 3_600_000})  # the same
    queue.delete()


# -- strict acks


def test_strict_acks(ember: Broker) -> None:
    with connect(ember.url, strict_acks=True) as connection, connection.channel() as channel:
        queue = channel.queue().declare(exclusive=True)
        for body in (b"twice", b"block", b"no ack"):
            queue.publish(body)
        twice = got(channel, queue.name)
        twice.ack()
        with pytest.raises(NotSettled, match="settled before"):
            twice.ack()
        with pytest.raises(NotSettled, match="settled before"):
            twice.nack()
        with got(channel, queue.name).process() as message:
            message.ack()  # the end of the block knows
        free = queue.get(no_ack=True)
        assert free is not None
        with pytest.raises(NotSettled, match="without acks"):
            free.reject()
        queue.publish(b"stale")
        stale = got(channel, queue.name)
        channel.recover()
        with pytest.raises(NotSettled, match="comes again"):
            stale.ack()
        assert left_in(channel, queue.name) == 1


def test_acks_are_lenient_otherwise(channel: Channel, queue: str) -> None:
    channel.publish(b"x", queue)
    message = got(channel, queue)
    message.ack()
    message.ack()
    message.reject()
    assert left_in(channel, queue) == 0


# -- leaving a loop


def test_a_loop_of_a_coroutine_that_is_left_cancels_its_consumer(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = await channel.queue().declare(exclusive=True)
            for number in range(3):
                await queue.publish(b"%d" % number)
            async for message in await queue.consume():
                message.ack()
                break
            while True:
                info = await queue.look()
                if (info.consumer_count, info.message_count) == (0, 2):
                    break
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_callback_keeps_its_consumer(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = await channel.queue().declare(exclusive=True)
            came: asyncio.Queue[Message] = asyncio.Queue()
            await queue.consume(came.put)
            for number in range(3):
                await queue.publish(b"%d" % number)
                message = await came.get()
                message.ack()

    asyncio.run(asyncio.wait_for(run(), 60))


# -- what objects say


def test_what_objects_say_of_themselves(ember: Broker, channel: Channel, queue: str) -> None:
    with connect(ember.url) as connection:
        address = f"{connection.settings.endpoints[0]}"
        assert repr(connection) == f"<Connection to {address}, virtual host '/', open>"
        one = connection.channel()
        assert repr(one) == f"<Channel {one.number}, confirms, 0 consumers, 0 unconfirmed>"
        one.close()
        assert repr(one) == f"<Channel {one.number}, confirms, closed>"
    assert repr(connection).endswith("closed>")
    confirmation = channel.publish_soon(b"x", queue)
    confirmation.wait()
    assert repr(confirmation) == "<Confirmation, 'confirmed'>"
    assert "exchange='' routing_key=" in repr(got(channel, queue))
    with channel.consume(queue, consumer_tag="mine") as consumer:
        assert repr(consumer) == f"<Consumer 'mine' of queue '{queue}', consuming>"
    assert repr(consumer).endswith("cancelled>")
    channel.publish(b"y", queue)
    with channel.consume_columns(queue) as columns:
        batch = columns.fetch(1, timeout_s=60)
    assert repr(batch) == "<ColumnBatch of 1 messages: body>"


def test_what_objects_of_coroutines_say(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection:
            assert repr(connection).startswith("<AsyncConnection to ")
            channel = await connection.channel(confirms=False)
            assert (
                repr(channel) == f"<AsyncChannel {channel.number}, no confirms, 0 consumers, 0 unconfirmed>"
            )
            queue = await channel.queue().declare(exclusive=True)
            consumer = await queue.consume()
            assert repr(consumer) == f"<AsyncConsumer '{consumer.tag}' of queue '{queue.name}', consuming>"

    asyncio.run(run())
