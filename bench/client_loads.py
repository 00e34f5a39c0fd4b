"""What each client does in `python -m bench clients`: publish for some seconds, then consume it all.

Each function answers messages per second, published with confirms and consumed with acks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from importlib.metadata import version

QUEUE = "bench.clients"
BODY_BYTES = 100
BODY = b"x" * BODY_BYTES
PREFETCH = 1000
WINDOW = 500
clock = time.perf_counter  # or the processor time of this process, all its threads


def versions() -> str:
    return f"pika {version('pika')}, aio-pika {version('aio-pika')}"


def measured_by_processor_time(
    load: Callable[[str, float], tuple[float, float]], url: str
) -> tuple[float, float]:
    """Messages for each second that the client computes, however busy the machine is otherwise."""
    global clock
    clock = time.process_time
    return load(url, 1.0)


def for_a_while(seconds: float, step: Callable[[], int]) -> tuple[int, float]:
    """Repeat a step that answers how many messages it published; all of them, and messages per second."""
    count = 0
    began = clock()
    while (passed := clock() - began) < seconds:
        count += step()
    return count, count / passed


def pika_blocking(url: str, seconds: float) -> tuple[float, float]:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    channel.confirm_delivery()

    def step() -> int:
        for _ in range(50):
            channel.basic_publish("", QUEUE, BODY)
        return 50

    count, published = for_a_while(seconds, step)
    channel.basic_qos(prefetch_count=PREFETCH)
    began = clock()
    remaining = count
    for method, _, _ in channel.consume(QUEUE):
        channel.basic_ack(method.delivery_tag)
        remaining -= 1
        if remaining == 0:
            break
    consumed = count / (clock() - began)
    channel.queue_delete(QUEUE)
    connection.close()
    return published, consumed


def aio_pika_window(url: str, seconds: float) -> tuple[float, float]:
    import aio_pika

    async def run() -> tuple[float, float]:
        connection = await aio_pika.connect(url)
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(PREFETCH)
        queue = await channel.declare_queue(QUEUE)
        exchange = channel.default_exchange
        count = 0
        began = clock()
        while (passed := clock() - began) < seconds:
            await asyncio.gather(
                *(exchange.publish(aio_pika.Message(BODY), QUEUE, mandatory=False) for _ in range(WINDOW))
            )
            count += WINDOW
        published = count / passed
        began = clock()
        remaining = count
        async with queue.iterator() as messages:
            async for message in messages:
                await message.ack()
                remaining -= 1
                if remaining == 0:
                    break
        consumed = count / (clock() - began)
        await queue.delete(if_unused=False, if_empty=False)
        await connection.close()
        return published, consumed

    return asyncio.run(run())


def ember_one_by_one(url: str, seconds: float) -> tuple[float, float]:
    from embermq.client import Channel

    def step(channel: Channel) -> int:
        for _ in range(50):
            channel.publish(BODY, QUEUE)
        return 50

    return _ember(url, seconds, step)


def ember_blocking(url: str, seconds: float) -> tuple[float, float]:
    """A window: the next half is published before the last one is waited for."""
    from embermq.client import Channel, Confirmation

    unconfirmed: list[Confirmation] = []

    def step(channel: Channel) -> int:
        fresh = [channel.publish_soon(BODY, QUEUE) for _ in range(WINDOW // 2)]
        for confirmation in unconfirmed:
            confirmation.wait()
        unconfirmed[:] = fresh
        return WINDOW // 2

    return _ember(url, seconds, step)


def ember_batches(url: str, seconds: float) -> tuple[float, float]:
    from embermq.client import Channel

    def step(channel: Channel) -> int:
        channel.publish_batch([BODY] * WINDOW, QUEUE)
        return WINDOW

    return _ember(url, seconds, step, batches=True)


def _ember(
    url: str, seconds: float, step: Callable[..., int], *, batches: bool = False
) -> tuple[float, float]:
    from embermq.client import connect

    with connect(url) as connection, connection.channel(prefetch=PREFETCH) as channel:
        channel.queue_declare(QUEUE)
        count, published = for_a_while(seconds, lambda: step(channel))
        began = clock()
        remaining = count
        with channel.consume(QUEUE) as consumer:
            while batches and remaining:
                batch = consumer.fetch(PREFETCH // 2)
                consumer.ack(batch)
                remaining -= len(batch)
            while remaining:
                next(consumer).ack()
                remaining -= 1
            channel.get(QUEUE)  # an answer comes after everything before it has been done
            consumed = count / (clock() - began)
        channel.queue_delete(QUEUE)
    return published, consumed


def ember_asyncio(url: str, seconds: float) -> tuple[float, float]:
    return asyncio.run(_ember_asyncio(url, seconds, batches=False))


def ember_asyncio_batches(url: str, seconds: float) -> tuple[float, float]:
    return asyncio.run(_ember_asyncio(url, seconds, batches=True))


async def _ember_asyncio(url: str, seconds: float, *, batches: bool) -> tuple[float, float]:
    from embermq.client import connect_async

    async with await connect_async(url) as connection:
        channel = await connection.channel(prefetch=PREFETCH)
        await channel.queue_declare(QUEUE)
        count = 0
        began = clock()
        while (passed := clock() - began) < seconds:
            if batches:
                await channel.publish_batch([BODY] * WINDOW, QUEUE)
            else:
                await asyncio.gather(*(channel.publish(BODY, QUEUE) for _ in range(WINDOW)))
            count += WINDOW
        published = count / passed
        began = clock()
        remaining = count
        async with await channel.consume(QUEUE) as consumer:
            while batches and remaining:
                batch = await consumer.fetch(PREFETCH // 2)
                consumer.ack(batch)
                remaining -= len(batch)
            if remaining:
                async for message in consumer:
                    message.ack()
                    remaining -= 1
                    if remaining == 0:
                        break
            await channel.get(QUEUE)  # an answer comes after everything before it has been done
            consumed = count / (clock() - began)
        await channel.queue_delete(QUEUE)
    return published, consumed
