"""A user's program that touches all of the client; type checkers find nothing to say about it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from embermq.client import (
    AsyncChannel,
    AsyncChannelPool,
    AsyncConsumer,
    AsyncRpcClient,
    AsyncStream,
    AsyncSuperStream,
    Channel,
    ChannelPool,
    ClientError,
    Confirmation,
    ConnectionPool,
    Consumer,
    Message,
    Outgoing,
    Properties,
    PublishFailed,
    Queue,
    QueueInfo,
    RpcClient,
    Stream,
    SuperStream,
    connect,
    connect_async,
    serve_rpc,
)


def declare(channel: Channel) -> Queue:
    channel.exchange_declare("events", "topic", durable=True)
    info: QueueInfo = channel.queue_declare("orders", arguments={"x-message-ttl": timedelta(minutes=5)})
    channel.queue_bind(info.name, "events", "orders.#")
    removed: int = channel.queue_purge("orders")
    print(removed, info.message_count)
    exchange = channel.exchange("events").declare("topic", durable=True)
    queue: Queue = channel.queue("orders").declare()
    queue.bind(exchange, "orders.*")
    return queue


def publish(channel: Channel) -> None:
    properties = Properties(timestamp=datetime.now(UTC), expiration=timedelta(hours=1), delivery_mode=2)
    try:
        channel.publish(b"body", "orders", "events", properties=properties, mandatory=True, timeout_s=5)
    except PublishFailed as error:
        bodies: list[bytes] = [message.body for message in error.returned]
        print(error.nacked, bodies)
    confirmation: Confirmation = channel.publish_soon("text", "orders")
    confirmation.wait()
    channel.publish_batch([b"a", "b", Outgoing(b"c", priority_key())], "orders")


def priority_key() -> str:
    return "orders"


def handle(message: Message) -> None:
    at: datetime | None = message.timestamp
    with message.process(requeue=True) as same:
        print(same.body.decode(), same.headers.get("x-death"), at)


def consume(channel: Channel, queue: Queue) -> None:
    consumer: Consumer = channel.consume("orders", handle, on_error="reject")
    consumer.cancel()
    for message in queue.consume(prefetch=10, timeout_s=1.5):
        message.ack()
        break
    with channel.consume("orders", no_ack=True) as loop:
        batch: list[Message] = loop.fetch(100, timeout_s=1)
        loop.ack(batch)
    got: Message | None = channel.get("orders")
    if got is not None:
        got.reject()
    with channel.transaction():
        channel.publish(b"x")


def streams(channel: Channel) -> None:
    stream = Stream(channel, "log").declare(max_age=timedelta(days=7))
    start: int | None = stream.offset_at(datetime(2026, 1, 1, tzinfo=UTC))
    for message in stream.consume(start or "first", end_offset=10):
        offset: int | None = message.stream_offset
        print(offset)
    parts: list[Stream] = SuperStream(channel, "clicks").declare(3).partitions()
    print(parts)


def main() -> None:
    with connect("amqp://localhost", heartbeat_s=30, strict_acks=True) as connection:
        with connection.channel(prefetch=50) as channel, RpcClient(connection) as client:
            queue = declare(channel)
            publish(channel)
            consume(channel, queue)
            streams(channel)
            answer: Message = client.call(b"21", "double")
            print(answer.body)
        with serve_rpc(connection, "double", lambda call: call.body * 2):
            pass
        with ChannelPool(connection, size=4) as pool, pool.acquire() as pooled:
            pooled.publish(b"x", "orders")
    with ConnectionPool("amqp://localhost", size=2, name="billing") as connections:
        with connections.acquire(timeout_s=3) as one:
            print(one.is_open, one.blocked_reason)


async def handle_async(message: Message) -> None:
    async with message.process():
        await asyncio.sleep(0)


async def use(channel: AsyncChannel) -> None:
    info: QueueInfo = await channel.queue_declare("orders")
    await channel.publish(b"x", info.name)
    await asyncio.gather(*(channel.publish(b"%d" % number, "orders") for number in range(10)))
    consumer: AsyncConsumer = await channel.consume("orders", handle_async, concurrency=10)
    await consumer.cancel()
    queue = await channel.queue("orders").declare()
    async for message in await queue.consume(timeout_s=1):
        message.ack()
    stream = await AsyncStream(channel, "log").declare(max_age="7D")
    async with await stream.consume("first", end_offset=3) as reader:
        async for message in reader:
            message.ack()
    following: int = await stream.next_offset()
    partitions: list[AsyncStream] = await AsyncSuperStream(channel, "clicks").partitions()
    print(following, partitions)


async def main_async() -> None:
    async with connect_async("amqp://localhost", reconnect=False) as connection:
        async with await connection.channel() as channel:
            await use(channel)
        async with AsyncChannelPool(connection) as pool, pool.acquire() as pooled:
            await pooled.publish(b"x", "orders")
        async with await AsyncRpcClient.open(connection) as client:
            answer = await client.call(b"21", "double")
            print(answer.body)


if __name__ == "__main__":
    try:
        main()
        asyncio.run(main_async())
    except ClientError as error:
        print(error)
