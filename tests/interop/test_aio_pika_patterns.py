"""aio-pika's higher storeys: RPC, Master/Worker, pools, and surviving the broker's death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.patterns import RPC, JsonRPC, Master, NackMessage, RejectMessage
from aio_pika.pool import Pool

from tools.brokers import Broker

Names = Callable[[str], str]


async def test_rpc_pattern(broker: Broker, fresh_name: Names) -> None:
    multiply_name, fail_name = fresh_name("multiply"), fresh_name("fail")

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def fail() -> None:
        raise LookupError("no such thing")

    async with (
        await aio_pika.connect_robust(broker.url) as serving,
        await aio_pika.connect(broker.url) as asking,
    ):
        server = await RPC.create(await serving.channel())
        await server.register(multiply_name, multiply, auto_delete=True)
        await server.register(fail_name, fail, auto_delete=True)
        client = await RPC.create(await asking.channel())
        answers = await asyncio.gather(
            *(client.call(multiply_name, kwargs={"x": number, "y": 2}) for number in range(50))
        )
        assert answers == [number * 2 for number in range(50)]
        with pytest.raises(LookupError, match="no such thing"):
            await client.call(fail_name)
        await server.unregister(multiply)


async def test_rpc_call_of_nobody_comes_back(broker: Broker, fresh_name: Names) -> None:
    async with await aio_pika.connect(broker.url) as connection:
        rpc = await JsonRPC.create(await connection.channel())
        with pytest.raises(aio_pika.exceptions.MessageProcessError):
            await rpc.call(fresh_name("nobody"))


async def test_master_and_workers(broker: Broker, fresh_name: Names) -> None:
    task_name = fresh_name("task")
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    attempts: list[int] = []

    async def work(*, number: int) -> None:
        if number == 3:
            attempts.append(number)
            raise NackMessage(requeue=True) if len(attempts) < 3 else RejectMessage(requeue=False)
        await done.put((task_name, number))

    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        master = Master(channel)
        workers = [await master.create_worker(task_name, work, auto_delete=True) for _ in range(2)]
        for number in range(10):
            await master.create_task(task_name, kwargs={"number": number})
        finished = {(await done.get())[1] for _ in range(9)}
        assert finished == set(range(10)) - {3}
        while len(attempts) < 3:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(worker.close() for worker in workers))


async def test_pools_share_connections_and_channels(broker: Broker, queue_name: str) -> None:
    connections: Pool[aio_pika.abc.AbstractConnection] = Pool(
        lambda: aio_pika.connect(broker.url), max_size=2
    )

    async def new_channel() -> aio_pika.abc.AbstractChannel:
        async with connections.acquire() as connection:
            return await connection.channel()

    channels: Pool[aio_pika.abc.AbstractChannel] = Pool(new_channel, max_size=5)
    async with connections, channels:
        async with channels.acquire() as channel:
            queue = await channel.declare_queue(queue_name, auto_delete=True)

        async def publish(number: int) -> None:
            async with channels.acquire() as channel:
                await channel.default_exchange.publish(Message(b"%d" % number), queue_name)

        await asyncio.gather(*(publish(number) for number in range(50)))
        async with channels.acquire() as channel:
            queue = await channel.declare_queue(queue_name, passive=True)
            assert queue.declaration_result.message_count == 50
            await queue.delete(if_empty=False, if_unused=False)


async def test_robust_connection_survives_the_brokers_death(mortal_broker: Broker, fresh_name: Names) -> None:
    """Killed and restarted: exchange, queue, binding and consumer come back, the persistent message too."""
    connection = await aio_pika.connect_robust(mortal_broker.url, reconnect_interval=0.2)
    async with connection:
        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: reconnected.set())
        channel = await connection.channel()
        exchange = await channel.declare_exchange(
            fresh_name("exchange"), ExchangeType.DIRECT, auto_delete=True
        )
        volatile = await channel.declare_queue(fresh_name("volatile"), auto_delete=True)
        await volatile.bind(exchange, "key")
        arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await volatile.consume(arrived.put, no_ack=True)
        durable = await channel.declare_queue(fresh_name("durable"), durable=True)
        await channel.default_exchange.publish(
            Message(b"persistent", delivery_mode=DeliveryMode.PERSISTENT), durable.name
        )
        await exchange.publish(Message(b"before"), "key")
        assert (await arrived.get()).body == b"before"

        await asyncio.to_thread(mortal_broker.kill)
        await asyncio.to_thread(mortal_broker.start)
        await reconnected.wait()

        await exchange.publish(Message(b"after"), "key")
        assert (await arrived.get()).body == b"after"
        tag = await durable.consume(arrived.put, no_ack=True)
        assert (await arrived.get()).body == b"persistent"
        await durable.cancel(tag)
        await durable.delete()


async def test_robust_iterator_goes_on_after_a_clean_restart(mortal_broker: Broker, queue_name: str) -> None:
    async with await aio_pika.connect_robust(mortal_broker.url, reconnect_interval=0.2) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(queue_name, durable=True)
        seen: list[bytes] = []
        async with queue.iterator() as messages:
            await channel.default_exchange.publish(
                Message(b"1", delivery_mode=DeliveryMode.PERSISTENT), queue_name
            )
            async for message in messages:
                await message.ack()
                seen.append(message.body)
                if seen == [b"1"]:
                    await asyncio.to_thread(mortal_broker.restart)
                    async with await aio_pika.connect_robust(mortal_broker.url) as other:
                        other_channel = await other.channel()
                        await other_channel.default_exchange.publish(Message(b"2"), queue_name)
                if b"2" in seen:
                    break
        assert seen[-1] == b"2"
        await queue.delete(if_unused=False)
