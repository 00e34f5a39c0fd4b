"""aiormq: the thin asyncio layer under aio-pika, where a method call is a method on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiormq
import pytest
from aiormq import spec
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionClosed,
    ProbableAuthenticationError,
    PublishError,
)

from tests.interop.property_values import INSTANT, PROPERTIES
from tools.brokers import Broker

Names = Callable[[str], str]


@asynccontextmanager
async def channel_of(broker: Broker, **options: object) -> AsyncIterator[AbstractChannel]:
    connection = await aiormq.connect(broker.url)
    try:
        yield await connection.channel(**options)
    finally:
        await connection.close()


async def exclusive_queue(channel: AbstractChannel) -> str:
    queue = (await channel.queue_declare(exclusive=True)).queue
    assert queue is not None
    return queue


async def bodies(channel: AbstractChannel, queue: str) -> list[bytes]:
    found = []
    while isinstance((message := await channel.basic_get(queue, no_ack=True)).delivery, spec.Basic.GetOk):
        found.append(message.body)
    return found


async def test_capabilities(broker: Broker) -> None:
    connection = await aiormq.connect(broker.url)
    try:
        assert connection.basic_nack
        assert connection.consumer_cancel_notify
        assert connection.exchange_exchange_bindings
        assert connection.publisher_confirms
        assert connection.server_capabilities["connection.blocked"]
        assert connection.server_capabilities["authentication_failure_close"]
        assert connection.server_capabilities["per_consumer_qos"]
    finally:
        await connection.close()


async def test_wrong_password(broker: Broker) -> None:
    with pytest.raises(ProbableAuthenticationError):
        await aiormq.connect(broker.url.replace("guest:guest", "nobody:guest"))


async def test_heartbeat_interval_is_the_clients_choice(broker: Broker) -> None:
    connection = await aiormq.connect(f"{broker.url}?heartbeat=7")
    try:
        tune = connection.connection_tune
        assert (tune.heartbeat, tune.frame_max) == (7, 131_072)
        assert tune.channel_max >= 2047
    finally:
        await connection.close()


async def test_update_secret(broker: Broker) -> None:
    connection = await aiormq.connect(broker.url)
    try:
        answer = await connection.update_secret("guest", reason="renewed")
        assert isinstance(answer, spec.Connection.UpdateSecretOk)
        await connection.channel()
    finally:
        await connection.close()


async def test_declare_answers(broker: Broker, queue_name: str) -> None:
    async with channel_of(broker) as channel:
        declared = await channel.queue_declare(queue_name, exclusive=True)
        assert (declared.queue, declared.message_count, declared.consumer_count) == (queue_name, 0, 0)
        await channel.basic_publish(b"", routing_key=queue_name)
        await channel.basic_consume(queue_name, lambda _: None, no_ack=False)
        again = await channel.queue_declare(queue_name, passive=True)
        assert again.consumer_count == 1
        assert (await channel.queue_purge(queue_name)).message_count == 0  # the consumer holds the message
        assert (await channel.queue_delete(queue_name)).message_count == 0


async def test_nowait_declarations(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker) as channel:
        queue, exchange = fresh_name("queue"), fresh_name("exchange")
        await channel.queue_declare(queue, exclusive=True, nowait=True)
        await channel.exchange_declare(exchange, exchange_type="fanout", auto_delete=True, nowait=True)
        await channel.queue_bind(queue, exchange, nowait=True)
        await channel.basic_publish(b"x", exchange=exchange)
        assert await bodies(channel, queue) == [b"x"]
        await channel.queue_delete(queue, nowait=True)
        with pytest.raises(ChannelNotFoundEntity):
            await channel.queue_declare(queue, passive=True)


async def test_confirms(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker, publisher_confirms=True) as channel:
        queue = await exclusive_queue(channel)
        answers = await asyncio.gather(
            *(
                channel.basic_publish(b"%d" % number, routing_key=queue, mandatory=True)
                for number in range(300)
            )
        )
        assert all(isinstance(answer, spec.Basic.Ack) for answer in answers)
        assert len(await bodies(channel, queue)) == 300
        with pytest.raises(PublishError) as caught:
            await channel.basic_publish(b"", routing_key=fresh_name("nowhere"), mandatory=True)
        assert isinstance(caught.value.frame, spec.Basic.Return)
        assert (caught.value.frame.reply_code, caught.value.frame.reply_text) == (312, "NO_ROUTE")


async def test_publish_to_a_missing_exchange(broker: Broker, exchange_name: str) -> None:
    async with channel_of(broker) as channel:
        with pytest.raises(ChannelNotFoundEntity, match=f"no exchange '{exchange_name}' in vhost '/'"):
            await channel.basic_publish(b"", exchange=exchange_name)


async def test_publish_as_somebody_else(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await exclusive_queue(channel)
        with pytest.raises(ChannelPreconditionFailed, match="user_id property set to 'other'"):
            await channel.basic_publish(
                b"", routing_key=queue, properties=spec.Basic.Properties(user_id="other")
            )


async def test_reserved_queue_name(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        with pytest.raises(ChannelAccessRefused):
            await channel.queue_declare("amq.mine")


async def test_properties_round_trip(broker: Broker) -> None:
    sent = spec.Basic.Properties(**PROPERTIES, message_type="t", timestamp=INSTANT, headers={"k": [1, None]})
    async with channel_of(broker) as channel:
        queue = await exclusive_queue(channel)
        await channel.basic_publish(b"body", routing_key=queue, properties=sent)
        received = await channel.basic_get(queue, no_ack=True)
        assert received.body == b"body"
        assert dict(received.header.properties) == dict(sent)


async def test_consume_ack_nack_reject(broker: Broker) -> None:
    async with channel_of(broker) as channel:
        queue = await exclusive_queue(channel)
        await channel.basic_qos(prefetch_count=1)
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        consuming = await channel.basic_consume(queue, arrived.put, consumer_tag="mine")
        assert consuming.consumer_tag == "mine"
        for body in (b"1", b"2"):
            await channel.basic_publish(body, routing_key=queue)
        first = await arrived.get()
        assert (first.body, first.redelivered, first.consumer_tag) == (b"1", False, "mine")
        await channel.basic_nack(first.delivery_tag, requeue=True)
        again = await arrived.get()
        assert (again.body, again.redelivered) == (b"1", True)
        await channel.basic_reject(again.delivery_tag, requeue=False)
        second = await arrived.get()
        assert second.body == b"2"
        await channel.basic_ack(second.delivery_tag)
        assert (await channel.basic_cancel("mine")).consumer_tag == "mine"
        assert await bodies(channel, queue) == []


@pytest.mark.parametrize("nowait", [False, True])
async def test_recover(broker: Broker, nowait: bool) -> None:
    async with channel_of(broker) as channel:
        queue = await exclusive_queue(channel)
        await channel.basic_publish(b"again", routing_key=queue)
        assert not (await channel.basic_get(queue)).redelivered
        await channel.basic_recover(requeue=True, nowait=nowait)
        second = await channel.basic_get(queue)
        assert (second.body, second.redelivered) == (b"again", True)


async def test_exchange_bind_and_unbind(broker: Broker, fresh_name: Names) -> None:
    async with channel_of(broker) as channel:
        queue, source, target = await exclusive_queue(channel), fresh_name("e"), fresh_name("e")
        await channel.exchange_declare(source, exchange_type="topic", auto_delete=True)
        await channel.exchange_declare(target, exchange_type="fanout", auto_delete=True)
        await channel.exchange_bind(target, source, routing_key="*.news")
        await channel.queue_bind(queue, target)
        await channel.basic_publish(b"1", exchange=source, routing_key="world.news")
        await channel.exchange_unbind(target, source, routing_key="*.news")
        assert await bodies(channel, queue) == [b"1"]
        # The last binding went, and with it the auto-delete source.
        with pytest.raises(ChannelNotFoundEntity):
            await channel.exchange_declare(source, passive=True)


async def test_transactions(broker: Broker) -> None:
    async with channel_of(broker, publisher_confirms=False) as channel:
        queue = await exclusive_queue(channel)
        await channel.tx_select()
        await channel.basic_publish(b"no", routing_key=queue)
        await channel.tx_rollback()
        await channel.basic_publish(b"yes", routing_key=queue)
        await channel.tx_commit()
        assert await bodies(channel, queue) == [b"yes"]


async def test_cancel_notification(broker: Broker, queue_name: str) -> None:
    async with channel_of(broker) as channel, channel_of(broker) as other:
        await channel.queue_declare(queue_name)
        notices: asyncio.Queue[object] = asyncio.Queue()
        channel.on_consumer_cancel_callbacks.add(notices.put_nowait)
        await channel.basic_consume(queue_name, lambda _: None, consumer_tag="gone")
        await other.queue_delete(queue_name)
        notice = await notices.get()
        assert getattr(notice, "consumer_tag", notice) == "gone"


async def test_duplicate_consumer_tag_closes_the_connection(broker: Broker) -> None:
    """530, a connection exception. aiormq refuses to send it, so the frame is sent by hand."""
    async with channel_of(broker) as channel:
        queue = await exclusive_queue(channel)
        await channel.basic_consume(queue, lambda _: None, consumer_tag="twice")
        with pytest.raises(ConnectionClosed):
            await channel.rpc(spec.Basic.Consume(queue=queue, consumer_tag="twice"))


async def test_fifty_connections_at_once(broker: Broker) -> None:
    connections = await asyncio.gather(*(aiormq.connect(broker.url) for _ in range(50)))
    channels = await asyncio.gather(*(connection.channel() for connection in connections))
    queue = await exclusive_queue(channels[0])
    await asyncio.gather(*(each.basic_publish(b"hello", routing_key=queue) for each in channels))
    assert len(await bodies(channels[0], queue)) == 50
    await asyncio.gather(*(connection.close() for connection in connections))
