"""Frameworks that people use, tested the way their users would test: against an embedded broker."""

from __future__ import annotations

import asyncio
import threading

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from faststream.rabbit import RabbitBroker

from embermq.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as broker:
        yield broker


def test_dramatiq_works_retries_and_dead_letters(broker: EmbeddedBroker) -> None:
    done, attempts = threading.Event(), []
    with broker.vhost() as vhost:
        rabbit = RabbitmqBroker(url=broker.url_of(vhost))

        @dramatiq.actor(broker=rabbit, max_retries=2, min_backoff=10, max_backoff=20)
        def fragile(word: str) -> None:
            attempts.append(word)
            if len(attempts) < 3:
                raise ValueError("not yet")
            done.set()

        @dramatiq.actor(broker=rabbit, max_retries=0)
        def hopeless() -> None:
            raise ValueError("never")

        fragile.send("hello")
        hopeless.send()
        worker = dramatiq.Worker(rabbit, worker_threads=2, worker_timeout=100)
        worker.start()
        try:
            assert done.wait(60)
            (letter,) = broker.wait_for_messages("default.XQ", 1, vhost, timeout=60)
            assert b"hopeless" in letter.body
        finally:
            worker.stop()
            rabbit.close()
    assert attempts == ["hello"] * 3


def test_faststream_subscribes_publishes_and_replies(broker: EmbeddedBroker) -> None:
    async def scenario(url: str) -> tuple[str, list[str]]:
        stream = RabbitBroker(url)
        seen: list[str] = []

        @stream.subscriber("words")
        @stream.publisher("shouts")
        async def shout(word: str) -> str:
            return word.upper()

        @stream.subscriber("shouts")
        async def collect(word: str) -> None:
            seen.append(word)

        async with stream:
            await stream.start()
            reply = await stream.request("hello", queue="words", timeout=60)
            await stream.publish("world", queue="words")
            async with asyncio.timeout(10):
                while len(seen) < 2:
                    await asyncio.sleep(0.01)
            return await reply.decode(), seen

    with broker.vhost() as vhost:
        answer, seen = asyncio.run(scenario(broker.url_of(vhost)))
    assert answer == "HELLO"
    assert sorted(seen) == ["HELLO", "WORLD"]
