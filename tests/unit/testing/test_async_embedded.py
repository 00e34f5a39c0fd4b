"""The embedded broker for coroutines: the same, awaited."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from embermq.testing import AsyncEmbeddedBroker, QueueView


def test_a_day_in_its_life() -> None:
    async def scenario() -> None:
        async with AsyncEmbeddedBroker(persistent=True) as broker, broker.vhost("world") as vhost:
            connection = await aio_pika.connect(broker.url_of(vhost))
            async with connection, connection.channel() as channel:
                await channel.declare_queue("q", durable=True)
                message = aio_pika.Message(b"one", delivery_mode=2)
                async with broker.paused_deliveries():
                    await channel.default_exchange.publish(message, "q")
                    found = await broker.wait_for_messages("q", 1, vhost)
                assert [view.body for view in found] == [b"one"] == [found[0].body]
                assert await broker.queues(vhost) == ["q"]
                assert await broker.connection_count() == 1
            await broker.restart()
            assert await broker.queue("q", vhost) == QueueView("q", 1, 0, 0)
            assert await broker.purge("q", vhost) == 1
            await broker.wait_until_empty("q", vhost)
            await broker.fail_next_connections(1)
            with pytest.raises((ConnectionError, aio_pika.exceptions.AMQPError)):
                await aio_pika.connect(broker.url)
            async with broker.blocked_publishers():
                connection = await aio_pika.connect(broker.url)
            assert await broker.drop_connections() == 1
            await connection.close()
            await broker.kill()
            await broker.start()
            assert await broker.messages("q", vhost) == []
            with pytest.raises(TimeoutError):
                await broker.wait_for_consumers("q", 1, vhost, timeout=0.01)
            with pytest.raises(TimeoutError, match="never"):
                await broker.wait_until(lambda: False, "never", timeout=0.01)
            assert await broker.close_connections() == 0
            assert broker.http_url.startswith("http://127.0.0.1:") and str(broker.port) in broker.url

    asyncio.run(scenario())
