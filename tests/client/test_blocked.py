"""A broker that takes no publishes reads nothing and answers nothing: who gives up must not wait for it."""

from __future__ import annotations

import asyncio

import pytest

from embermq.client import connect, connect_async
from embermq.testing import EmbeddedBroker

PATIENCE_S = 60.0


class GivenUpError(Exception):
    """As KeyboardInterrupt would."""


def test_what_ends_a_with_block_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever waits for an answer here waits for as long as the test may take.
    monkeypatch.setattr("embermq.client.blocking.connection.CLOSE_S_MAX", 10 * PATIENCE_S)
    with (
        EmbeddedBroker() as broker,
        pytest.raises(GivenUpError),
        broker.blocked_publishers(),
        connect(broker.url, call_timeout_s=10 * PATIENCE_S) as connection,
        connection.channel() as channel,
    ):
        channel.publish_soon(b"waits", "nowhere")
        broker.wait_until(lambda: connection.blocked_reason, "blocked", PATIENCE_S)
        raise GivenUpError
    assert connection.is_closed


def test_what_ends_an_async_with_block_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embermq.client.aio.connection.CLOSE_S_MAX", 10 * PATIENCE_S)

    async def scenario(broker: EmbeddedBroker) -> None:
        async with await connect_async(broker.url, call_timeout_s=10 * PATIENCE_S) as connection:
            async with await connection.channel() as channel:
                future = channel.publish(b"waits", "nowhere")
                future.add_done_callback(lambda done: done.exception())
                while connection.blocked_reason is None:
                    await asyncio.sleep(0.01)
                raise GivenUpError

    with EmbeddedBroker() as broker, pytest.raises(GivenUpError), broker.blocked_publishers():
        asyncio.run(asyncio.wait_for(scenario(broker), PATIENCE_S))


def test_publishes_that_wait_are_kept_once() -> None:
    """While the transport is full nothing is encoded: what waits are the user's own bodies."""
    body = bytes(100_000)

    async def scenario(broker: EmbeddedBroker) -> None:
        async with await connect_async(broker.url) as connection, await connection.channel() as channel:
            queue = (await channel.queue_declare(exclusive=True)).name
            with broker.blocked_publishers():
                futures = [channel.publish(body, queue) for _ in range(10)]
                while connection.blocked_reason is None:
                    await asyncio.sleep(0.01)
                for _ in range(100):
                    futures += [channel.publish(body, queue) for _ in range(10)]
                    await asyncio.sleep(0)
                engine, transport = connection.engine, connection._protocol.transport  # type: ignore[union-attr]
                assert engine.buffer.out.size + transport.get_write_buffer_size() < 4_000_000
            await asyncio.gather(*futures)
            assert (await channel.queue_declare(queue, passive=True)).message_count == len(futures)

    with EmbeddedBroker() as broker:
        asyncio.run(asyncio.wait_for(scenario(broker), PATIENCE_S))
