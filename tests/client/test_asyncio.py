"""The asyncio client against a real broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from embermq.client import (
    AsyncChannel,
    AsyncConnection,
    AsyncRpcClient,
    AuthenticationFailed,
    ChannelClosed,
    ConnectionClosed,
    ConnectionFailed,
    ConsumerCancelled,
    Message,
    NotFound,
    Outgoing,
    Properties,
    PublishFailed,
    RpcFailed,
    Timeout,
    connect_async,
    serve_rpc_async,
)
from tools.brokers import Broker
from tools.ports import free_port

Scene = Callable[[AsyncChannel, str], Coroutine[None, None, None]]


@asynccontextmanager
async def scene(broker: Broker) -> AsyncIterator[tuple[AsyncConnection, AsyncChannel, str]]:
    """A connection, a channel, and a queue of its own."""
    async with await connect_async(broker.url, call_timeout_s=60) as connection:
        async with await connection.channel() as channel:
            name = f"aio.{uuid.uuid4().hex}"
            await channel.queue_declare(name, exclusive=True)
            yield connection, channel, name


def play(broker: Broker, act: Scene) -> None:
    async def run() -> None:
        async with scene(broker) as (_, channel, queue):
            await act(channel, queue)

    asyncio.run(run())


def test_a_message_goes_and_comes(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        await channel.publish("hello", queue, properties=Properties(message_id="7"))
        message = await channel.get(queue)
        assert message is not None
        assert (message.body, message.properties.message_id) == (b"hello", "7")
        message.ack()
        assert await channel.get(queue) is None

    play(ember, act)


def test_many_publishes_at_once(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        await asyncio.gather(*(channel.publish(b"%d" % number, queue) for number in range(2000)))
        assert channel.unconfirmed_count == 0
        got = []
        async with await channel.consume(queue, timeout_s=60) as consumer:
            async for message in consumer:
                message.ack()
                got.append(int(message.body))
                if len(got) == 2000:
                    break
        assert got == list(range(2000))

    play(ember, act)


def test_batches_both_ways(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        await channel.publish_batch([b"plain", Outgoing(b"own", properties=Properties(type="t"))], queue)
        await channel.publish_batch((b"x" * 1000 for _ in range(1000)), queue)
        consumer = await channel.consume(queue, prefetch=2000)
        got = await consumer.fetch_all(1002, timeout_s=60)
        assert [message.properties.type for message in got[:2]] == [None, "t"]
        consumer.ack(got)
        await consumer.cancel()
        assert (await channel.queue_declare(queue, passive=True)).message_count == 0

    play(ember, act)


def test_what_cannot_be_routed_or_taken_is_reported(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        returned: list[Message] = []

        async def on_return(message: Message) -> None:
            returned.append(message)

        channel.on_return = on_return
        with pytest.raises(PublishFailed) as caught:
            await channel.publish_batch([b"1", Outgoing(b"2", routing_key=queue)], "aio.no", mandatory=True)
        assert [message.body for message in caught.value.returned] == [b"1"]
        await asyncio.sleep(0)
        assert [message.body for message in returned] == [b"1"]
        full = await channel.queue_declare(
            exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
        )
        results = await asyncio.gather(
            *(channel.publish(b"x", full.name) for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), PublishFailed, PublishFailed]

    play(ember, act)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_callbacks(ember: Broker, concurrency: int) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        running = 0
        most = 0
        seen: list[bytes] = []
        enough = asyncio.Event()

        async def handle(message: Message) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            seen.append(message.body)
            message.ack()
            if len(seen) == 9:
                enough.set()

        async with await channel.consume(queue, handle, concurrency=concurrency):
            await channel.publish_batch([b"%d" % number for number in range(9)], queue)
            await asyncio.wait_for(enough.wait(), 60)
        assert most == concurrency
        if concurrency == 1:
            assert seen == [b"%d" % number for number in range(9)]

    play(ember, act)


def test_a_failing_callback_gives_its_message_back_and_says_so(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        def fail(message: Message) -> None:
            raise RuntimeError("no")

        await channel.publish(b"x", queue)
        consumer = await channel.consume(queue, fail)
        with pytest.raises(RuntimeError, match="no"):
            await asyncio.wait_for(consumer.join(), 60)
        message = await channel.get(queue)
        assert message is not None and message.redelivered

    play(ember, act)


def test_messages_may_be_settled_in_other_threads(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        await channel.publish(b"x", queue)
        consumer = await channel.consume(queue)
        message = await anext(consumer)
        await asyncio.to_thread(message.ack)
        await consumer.cancel()
        assert await channel.get(queue) is None

    play(ember, act)


def test_errors_of_the_broker(ember: Broker) -> None:
    async def run() -> None:
        async with scene(ember) as (connection, channel, queue):
            consumer = await channel.consume(queue)
            await channel.queue_delete(queue)
            with pytest.raises(ConsumerCancelled):
                await anext(consumer)
            with pytest.raises(NotFound, match="aio-nowhere"):
                await channel.publish(b"x", "key", "aio-nowhere")
            with pytest.raises(NotFound):
                channel.publish(b"x", "key")
            other = await connection.channel()
            await other.close()
            with pytest.raises(ChannelClosed, match="open another"):
                await other.get("q")

    asyncio.run(run())


def test_transactions(ember: Broker) -> None:
    async def run() -> None:
        async with scene(ember) as (connection, channel, queue):
            tx = await connection.channel(confirms=False)
            async with tx.transaction():
                tx.publish(b"kept", queue)
            with pytest.raises(ZeroDivisionError):
                async with tx.transaction():
                    tx.publish(b"not kept", queue)
                    raise ZeroDivisionError
            assert (await channel.queue_declare(queue, passive=True)).message_count == 1

    asyncio.run(run())


def test_the_rest_of_the_methods(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        await channel.exchange_declare("aio.from", "fanout")
        await channel.exchange_declare("aio.to", "fanout")
        await channel.exchange_bind("aio.to", "aio.from")
        await channel.queue_bind(queue, "aio.to")
        await channel.publish(b"through", exchange="aio.from")
        message = await channel.get(queue)
        assert message is not None
        await channel.recover()
        assert await channel.queue_purge(queue) == 1
        await channel.exchange_unbind("aio.to", "aio.from")
        await channel.queue_unbind(queue, "aio.to")
        await channel.exchange_delete("aio.from")
        await channel.exchange_delete("aio.to")
        assert await channel.flow(True) is True
        assert await channel.queue_delete(queue) == 0

    play(ember, act)


def test_waiting_ends_in_time_and_can_be_cancelled(ember: Broker) -> None:
    async def act(channel: AsyncChannel, queue: str) -> None:
        consumer = await channel.consume(queue, timeout_s=0.05)
        assert [message async for message in consumer] == []
        assert await consumer.fetch(10, timeout_s=0.01) == []
        task = asyncio.create_task(consumer.fetch(1))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await channel.publish(b"x", queue)
        assert len(await consumer.fetch(1, timeout_s=60)) == 1

    play(ember, act)


def test_connecting_fails_with_a_reason(ember: Broker) -> None:
    async def run() -> None:
        with pytest.raises(AuthenticationFailed):
            await connect_async(f"amqp://guest:wrong@{ember.host}:{ember.port}/")
        with pytest.raises(ConnectionFailed, match="is a broker running there"):
            await connect_async(f"amqp://localhost:{free_port()}")
        connection = await connect_async(ember.url)
        channel = await connection.channel()
        await connection.close()
        assert connection.is_closed
        with pytest.raises(ConnectionClosed):
            channel.publish(b"x", "q")
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_remote_calls(ember: Broker) -> None:
    async def run() -> None:
        async with scene(ember) as (connection, _, queue):

            async def double(message: Message) -> bytes:
                if message.body == b"bad":
                    raise ValueError("not a number")
                return b"%d" % (int(message.body) * 2)

            server = await serve_rpc_async(connection, queue, double)
            async with await AsyncRpcClient.open(connection) as client:
                answers = await asyncio.gather(*(client.call(b"%d" % n, queue) for n in range(20)))
                assert [int(answer.body) for answer in answers] == [n * 2 for n in range(20)]
                with pytest.raises(RpcFailed, match="ValueError: not a number"):
                    await client.call(b"bad", queue)
                with pytest.raises(PublishFailed):
                    await client.call(b"x", "aio.nobody")
                await server.cancel()
                with pytest.raises(Timeout):
                    await client.call(b"x", queue, timeout_s=0.05)

    asyncio.run(run())
