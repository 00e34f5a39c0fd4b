"""aio-pika: connections, confirms, routing, consuming and contents through asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aio_pika
import aiormq.exceptions
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, QueueEmpty

from tests.interop.property_values import DECIMALS, FLOATS, HEADERS, INSTANT
from tools.brokers import Broker

Names = Callable[[str], str]


@asynccontextmanager
async def channel_of(broker: Broker, **options: object) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(broker.url) as connection, connection.channel(**options) as channel:
        yield channel


async def bodies(queue: AbstractQueue) -> list[bytes]:
    """Everything in the queue, acknowledged."""
    found = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        found.append(message.body)
    return found


async def publish(channel: AbstractChannel, queue: AbstractQueue, *contents: bytes) -> None:
    for body in contents:
        await channel.default_exchange.publish(Message(body), queue.name)


# --- connections


async def test_channels_that_overlap_come_past_every_number(broker: Broker) -> None:
    """aiormq takes the next number above all open ones: a service with two channels at a time gets there."""
    async with await aio_pika.connect(broker.url) as connection:
        before = await connection.channel(publisher_confirms=False)
        for _ in range(2100):
            following = await connection.channel(publisher_confirms=False)
            await before.close()
            before = following
        assert not connection.is_closed
        queue = await before.declare_queue(exclusive=True)
        await before.default_exchange.publish(Message(b"still here"), queue.name)
        assert await bodies(queue) == [b"still here"]


async def test_wrong_password(broker: Broker) -> None:
    with pytest.raises(aiormq.exceptions.ProbableAuthenticationError):
        await aio_pika.connect(broker.url.replace("guest:guest", "guest:wrong"))


async def test_unknown_vhost(broker: Broker) -> None:
    # aiormq shows the broker's close (530) in this unspecific way.
    with pytest.raises(aiormq.exceptions.InvalidFrameError, match=r"got <Connection\.Close"):
        await aio_pika.connect(broker.url.replace("%2f", "no-such-vhost"))


async def test_heartbeats_keep_an_idle_connection_open(broker: Broker) -> None:
    async with await aio_pika.connect(f"{broker.url}?heartbeat=1") as connection:
        await asyncio.sleep(3.5)  # silence longer than the two beats a broker waits for
        assert not connection.is_closed
        await connection.channel()


async def test_closing_runs_the_callbacks(broker: Broker) -> None:
    connection = await aio_pika.connect(broker.url, client_properties={"connection_name": "interop"})
    channel = await connection.channel()
    reasons: list[tuple[str, object]] = []
    connection.close_callbacks.add(lambda _, reason: reasons.append(("connection", reason)))
    channel.close_callbacks.add(lambda _, reason: reasons.append(("channel", reason)))
    await connection.close()
    assert connection.is_closed
    assert {kind for kind, _ in reasons} == {"connection", "channel"}


async def test_many_channels(broker: Broker) -> None:
    async with await aio_pika.connect(broker.url) as connection:
        channels = await asyncio.gather(*(connection.channel().__aenter__() for _ in range(100)))
        queue = await channels[0].declare_queue(exclusive=True)
        await asyncio.gather(*(publish(each, queue, b"x") for each in channels))
        await asyncio.gather(*(each.close() for each in channels[1:]))
        assert len(await bodies(queue)) == 100


async def test_channel_error_leaves_the_connection_usable(broker: Broker, queue_name: str) -> None:
    async with await aio_pika.connect(broker.url) as connection:
        broken = await connection.channel()
        await broken.declare_queue(queue_name, exclusive=True)
        with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'auto_delete'"):
            await broken.declare_queue(queue_name, exclusive=True, auto_delete=True)
        assert broken.is_closed
        healthy = await connection.channel()
        again = await healthy.declare_queue(queue_name, passive=True)
        assert again.declaration_result.message_count == 0


# --- publishing


async def test_confirms_many_outstanding(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        confirmations = await asyncio.gather(
            *(
                channel.default_exchange.publish(
                    Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT), queue.name
                )
                for number in range(500)
            )
        )
        assert {type(each) for each in confirmations} == {aiormq.spec.Basic.Ack}
        assert await bodies(queue) == [b"%d" % number for number in range(500)]


async def test_unroutable_message_is_handed_back(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker) as channel:
        returned: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        channel.return_callbacks.add(lambda _, message: returned.put_nowait(message))
        await channel.default_exchange.publish(Message(b"back", headers={"h": 1}), fresh_name("nowhere"))
        message = await returned.get()
        assert (message.body, message.headers) == (b"back", {"h": 1})


async def test_unroutable_message_raises_when_asked_to(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker, on_return_raises=True) as channel:
        with pytest.raises(DeliveryError) as caught:
            await channel.default_exchange.publish(Message(b""), fresh_name("nowhere"))
        assert caught.value.message.delivery.reply_code == 312
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, b"still works")
        assert await bodies(queue) == [b"still works"]


async def test_unconfirmed_channel(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=False) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, b"1", b"2")
        assert await bodies(queue) == [b"1", b"2"]


async def test_transactions(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=False) as channel:
        queue = await channel.declare_queue(exclusive=True)
        async with channel.transaction():
            await publish(channel, queue, b"kept")
        with contextlib.suppress(ZeroDivisionError):
            async with channel.transaction():
                await publish(channel, queue, b"taken back")
                raise ZeroDivisionError
        assert await bodies(queue) == [b"kept"]


# --- contents


async def test_properties_round_trip(broker: Broker) -> None:
    sent = Message(
        b"body",
        content_type="text/plain",
        content_encoding="utf-8",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration=60,
        message_id="m",
        timestamp=INSTANT,
        type="t",
        user_id="guest",
        app_id="a",
    )
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(sent, queue.name)
        received = await queue.get(no_ack=True)
    assert (received.body, received.exchange, received.routing_key) == (b"body", "", queue.name)
    assert dict(received.properties) == dict(sent.properties)
    assert received.timestamp == INSTANT


async def test_header_value_types_round_trip(broker: Broker) -> None:
    # pamqp writes None, every integer width, decimals, floats, byte arrays, instants, tables and arrays.
    headers = {**HEADERS, **DECIMALS, **FLOATS, "bytes": bytearray(b"\x00\xff")}
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"", headers=headers), queue.name)
        received = await queue.get(no_ack=True)
    for name, value in headers.items():
        assert received.headers[name] == value, name
    assert set(received.headers) == set(headers)


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 5_000_000])
async def test_body_sizes(broker: Broker, size: int) -> None:
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, b"z" * size)
        assert await bodies(queue) == [b"z" * size]


# --- routing


async def test_topic_and_unbind(broker: Broker, exchange_name: str) -> None:
    async with channel_of(broker) as channel:
        exchange = await channel.declare_exchange(exchange_name, ExchangeType.TOPIC, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "a.*.c")
        await queue.bind(exchange, "x.#")
        for key in ("a.b.c", "a.c", "x", "x.y.z"):
            await exchange.publish(Message(key.encode()), key, mandatory=False)
        assert await bodies(queue) == [b"a.b.c", b"x", b"x.y.z"]
        await queue.unbind(exchange, "x.#")
        await exchange.publish(Message(b"gone"), "x", mandatory=False)
        assert await bodies(queue) == []


async def test_headers_and_exchange_to_exchange(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker) as channel:
        source = await channel.declare_exchange(fresh_name("e"), ExchangeType.HEADERS, auto_delete=True)
        target = await channel.declare_exchange(fresh_name("e"), ExchangeType.FANOUT, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await target.bind(source, arguments={"x-match": "all", "kind": "log", "level": 3})
        await queue.bind(target)
        await source.publish(Message(b"yes", headers={"kind": "log", "level": 3, "more": 1}), "")
        await source.publish(Message(b"no", headers={"kind": "log"}), "", mandatory=False)
        assert await bodies(queue) == [b"yes"]


async def test_exclusive_queue_is_locked_for_others(broker: Broker, queue_name: str) -> None:
    async with channel_of(broker) as mine, channel_of(broker) as theirs:
        await mine.declare_queue(queue_name, exclusive=True)
        with pytest.raises(aiormq.exceptions.ChannelLockedResource):
            await theirs.declare_queue(queue_name, passive=True)


# --- consuming


async def test_get_and_settle(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        with pytest.raises(QueueEmpty):
            await queue.get()
        await publish(channel, queue, b"1", b"2", b"3")
        first = await queue.get()
        assert (first.redelivered, first.message_count) == (False, 2)
        await first.nack(requeue=True)
        again = await queue.get()
        assert (again.body, again.redelivered) == (b"1", True)
        await again.reject(requeue=False)
        async with (await queue.get()).process():
            pass
        with pytest.raises(ZeroDivisionError):
            async with (await queue.get()).process(requeue=True):
                raise ZeroDivisionError
        last = await queue.get(no_ack=True)
        assert (last.body, last.redelivered) == (b"3", True)
        assert await bodies(queue) == []


async def test_queue_iterator(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        await channel.set_qos(prefetch_count=2)
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, *(b"%d" % number for number in range(20)))
        seen = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    seen.append(message.body)
                if len(seen) == 10:
                    break
        assert seen == [b"%d" % number for number in range(10)]
        assert await bodies(queue) == [b"%d" % number for number in range(10, 20)]


async def test_queue_iterator_timeout(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        async with queue.iterator(timeout=0.1) as messages:
            with pytest.raises(asyncio.TimeoutError):
                await anext(messages)
        await publish(channel, queue, b"later")
        assert await bodies(queue) == [b"later"]


async def test_prefetch_holds_deliveries_back(broker: Broker) -> None:
    async with channel_of(broker) as reader:
        await reader.set_qos(prefetch_count=3)
        queue = await reader.declare_queue(exclusive=True)
        arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await queue.consume(arrived.put)
        await publish(reader, queue, *(b"%d" % number for number in range(6)))
        first = [await arrived.get() for _ in range(3)]
        state = await reader.declare_queue(queue.name, passive=True)
        assert state.declaration_result.message_count == 3
        assert arrived.empty()
        await first[-1].ack(multiple=True)
        assert [(await arrived.get()).body for _ in range(3)] == [b"3", b"4", b"5"]


async def test_consumer_is_told_when_its_queue_is_deleted(broker: Broker, queue_name: str) -> None:
    async with channel_of(broker) as channel, channel_of(broker) as other:
        queue = await channel.declare_queue(queue_name)
        cancelled: asyncio.Queue[object] = asyncio.Queue()
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(cancelled.put_nowait)
        never: asyncio.Queue[object] = asyncio.Queue()
        tag = await queue.consume(never.put)
        await other.queue_delete(queue_name)
        notice = await cancelled.get()
        assert getattr(notice, "consumer_tag", notice) == tag
        assert not channel.is_closed


async def test_expired_message_is_gone(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"too late", expiration=dt.timedelta()), queue.name)
        await publish(channel, queue, b"timeless")
        assert await bodies(queue) == [b"timeless"]
