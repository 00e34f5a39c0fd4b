"""asyncio: every public coroutine is cancelled at every one of its awaits, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
import uuid
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import pytest

from embermq.client import (
    AsyncChannel,
    AsyncChannelPool,
    AsyncConnection,
    AsyncConnectionPool,
    AsyncRpcClient,
    AsyncStream,
    AsyncSuperStream,
    connect_async,
    serve_rpc_async,
)
from embermq.wire.methods import BasicQos
from tools.brokers import Broker

PATIENCE_S = 60
MESSAGES = 10


class Stepped:
    """Awaits a coroutine and cancels its task at the n-th wait: before what is awaited comes, or after."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], step: int, *, late: bool) -> None:
        self.coroutine = coroutine
        self.step = step
        self.late = late
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, object]:
        task = asyncio.current_task()
        assert task is not None
        resume: Callable[[], Any] = lambda: self.coroutine.send(None)  # noqa: E731
        while True:
            try:
                future = resume()
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self.step:
                if future is not None and self.late:
                    future.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            try:
                yield future
                resume = lambda: self.coroutine.send(None)  # noqa: E731
            except BaseException as error:
                thrown = error
                resume = lambda: self.coroutine.throw(thrown)  # noqa: E731, B023


class World:
    """A connection under test, with a queue that holds some messages, and another one that looks."""

    def __init__(self, url: str, connection: AsyncConnection, observer: AsyncChannel) -> None:
        self.url = url
        self.connection = connection
        self.observer = observer
        self.channel: AsyncChannel
        self.queue = f"cancel.{uuid.uuid4().hex}"
        self.stream = f"cancel.{uuid.uuid4().hex}"
        self.consumer: Any = None

    async def prepare(self) -> None:
        self.channel = await self.connection.channel(prefetch=5)
        if self.consumer is None:
            await self.observer.queue_declare(self.queue)
            await self.observer.publish_batch([b"%d" % number for number in range(MESSAGES)], self.queue)
            await AsyncSuperStream(self.observer, self.stream).declare(routing_keys=["0", "1"])
            for number in range(2):
                await self.observer.publish_batch([b"s"] * 3, f"{self.stream}-{number}")
        self.consumer = await self.channel.consume(self.queue)

    async def clean_up(self) -> None:
        """What the user has to end is ended; then nothing may be left."""
        await self.consumer.cancel()
        await self.channel.close()
        await self.until(self.nothing_left, "something was left behind")

    async def nothing_left(self) -> bool:
        info = await self.observer.queue_declare(self.queue, passive=True)
        channels = len(self.connection.engine.channels)
        return (info.message_count, info.consumer_count, channels) == (MESSAGES, 0, 0)

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not await condition():
            assert time.monotonic() < deadline_s, what
            await asyncio.sleep(0.002)


# -- what a user may await; what it gets it gives back, as a user would


async def connecting(world: World) -> None:
    async with await connect_async(world.url):
        pass


async def opening(world: World) -> None:
    await (await world.connection.channel()).close()


async def getting(world: World) -> None:
    message = await world.channel.get(world.queue)
    if message is not None:
        message.nack()


async def consuming(world: World) -> None:
    async with await world.channel.consume(world.queue, prefetch=3) as consumer:
        async for message in consumer:
            message.nack()
            break


async def with_callback(world: World) -> None:
    async with await world.channel.consume(world.queue, lambda message: message.nack(), concurrency=2):
        await asyncio.sleep(0)


async def cancelling(world: World) -> None:
    await world.consumer.cancel()


async def fetching(world: World) -> None:
    for message in await world.consumer.fetch(3):
        message.nack()


async def fetching_all(world: World) -> None:
    for message in await world.consumer.fetch_all(5, 0.05):
        message.nack()


async def publishing(world: World) -> None:
    await world.channel.publish(b"x", f"{world.stream}-0")
    await world.channel.publish_batch([b"x", b"y"], f"{world.stream}-0")


async def declaring(world: World) -> None:
    channel = world.channel
    queue = await channel.queue_declare(exclusive=True)
    await channel.exchange_declare("cancel.exchange", auto_delete=True)
    await channel.queue_bind(queue.name, "cancel.exchange", "key")
    await channel.queue_unbind(queue.name, "cancel.exchange", "key")
    await channel.queue_purge(queue.name)
    await channel.queue_delete(queue.name)
    await channel.exchange_delete("cancel.exchange")


async def calling(world: World) -> None:
    await world.channel.call(BasicQos(0, 7, False))
    await world.channel.qos(5)
    await world.channel.flow(True)


async def recovering(world: World) -> None:
    await world.channel.recover()


async def committing(world: World) -> None:
    async with await world.connection.channel(confirms=False) as channel:
        async with channel.transaction():
            channel.publish(b"x", f"{world.stream}-0")


async def rpc(world: World) -> None:
    async def echo(message: Any) -> bytes:
        return bytes(message.body)

    async with await world.connection.channel() as channel:
        queue = (await channel.queue_declare(exclusive=True)).name
        server = await serve_rpc_async(world.connection, queue, echo)
        try:
            async with await AsyncRpcClient.open(world.connection) as client:
                await client.call(b"x", queue)
        finally:
            server.channel.close_soon()


async def streams(world: World) -> None:
    stream = AsyncStream(world.channel, f"{world.stream}-0")
    await stream.declare()
    await stream.first_offset()
    await stream.next_offset()


async def super_streams(world: World) -> None:
    async with await AsyncSuperStream(world.channel, world.stream).consume("first") as consumer:
        async for message in consumer:
            message.ack()
            break


async def objects(world: World) -> None:
    exchange = await world.channel.exchange("cancel.exchange").declare("fanout", auto_delete=True)
    queue = await world.channel.queue().declare(exclusive=True)
    await queue.bind(exchange)
    await exchange.publish(b"x")
    message = await queue.get()
    if message is not None:
        message.nack()
    async for message in await queue.consume():
        message.ack()
        break
    await queue.look()
    await queue.purge()
    await queue.delete()
    await exchange.delete()


async def pools(world: World) -> None:
    async with AsyncConnectionPool(world.url, size=1) as connections, connections.acquire():
        pass
    async with AsyncChannelPool(world.connection, size=1) as channels:
        async with channels.acquire() as channel:
            await channel.queue_declare(world.queue, passive=True)
        async with channels.acquire():
            pass


USES = [
    connecting,
    opening,
    getting,
    consuming,
    with_callback,
    cancelling,
    fetching,
    fetching_all,
    publishing,
    declaring,
    calling,
    recovering,
    committing,
    rpc,
    streams,
    super_streams,
    objects,
    pools,
]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_cancelled_at_every_await(ember: Broker, use: Callable[[World], Any], late: bool) -> None:
    async def run() -> None:
        async with (
            await connect_async(ember.url, call_timeout_s=30) as connection,
            await connect_async(ember.url) as looking,
        ):
            observer = await looking.channel()
            world = World(ember.url, connection, observer)
            step = 0
            while True:
                step += 1
                await world.prepare()
                stepped = Stepped(use(world), step, late=late)

                async def steps(stepped: Stepped = stepped) -> None:
                    await stepped

                await asyncio.wait([asyncio.create_task(steps())], timeout=PATIENCE_S)
                await world.clean_up()
                if stepped.waits < step:
                    break
            await observer.queue_delete(world.queue)
            await AsyncSuperStream(observer, world.stream).delete()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a `connect` that was cancelled
        asyncio.run(run())
