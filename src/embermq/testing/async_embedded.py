"""`AsyncEmbeddedBroker`: the same broker for tests that are coroutines.

The broker never runs on the test's own loop: a test that blocks must not stop the broker, and the other way
round. What takes time or waits is awaited here; the rest is a property as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from embermq.testing.broker_access import DEFAULT_VHOST, MessageView, QueueView
from embermq.testing.embedded import WAIT_S, EmbeddedBroker

T = TypeVar("T")


class AsyncEmbeddedBroker:
    """`async with AsyncEmbeddedBroker() as broker:`; EmbeddedBroker itself is `.blocking`."""

    def __init__(self, **settings: Any) -> None:
        self.blocking = EmbeddedBroker(**settings)

    @property
    def url(self) -> str:
        return self.blocking.url

    @property
    def port(self) -> int:
        return self.blocking.port

    @property
    def http_url(self) -> str:
        return self.blocking.http_url

    def url_of(self, vhost: str) -> str:
        return self.blocking.url_of(vhost)

    async def start(self) -> Self:
        await asyncio.to_thread(self.blocking.start)
        return self

    async def stop(self) -> None:
        await asyncio.to_thread(self.blocking.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self.blocking.kill)

    async def restart(self) -> None:
        await asyncio.to_thread(self.blocking.restart)

    async def close(self) -> None:
        await asyncio.to_thread(self.blocking.close)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def messages(self, queue: str, vhost: str = DEFAULT_VHOST, limit: int = 1000) -> list[MessageView]:
        return await asyncio.to_thread(self.blocking.messages, queue, vhost, limit)

    async def queue(self, name: str, vhost: str = DEFAULT_VHOST) -> QueueView | None:
        return await asyncio.to_thread(self.blocking.queue, name, vhost)

    async def queues(self, vhost: str = DEFAULT_VHOST) -> list[str]:
        return await asyncio.to_thread(self.blocking.queues, vhost)

    async def connection_count(self) -> int:
        return await asyncio.to_thread(self.blocking.connection_count)

    async def wait_until(self, condition: Callable[[], object], what: str, timeout: float = WAIT_S) -> None:
        await asyncio.to_thread(self.blocking.wait_until, condition, what, timeout)

    async def wait_until_empty(self, queue: str, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S) -> None:
        await asyncio.to_thread(self.blocking.wait_until_empty, queue, vhost, timeout)

    async def wait_for_messages(
        self, queue: str, count: int = 1, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S
    ) -> list[MessageView]:
        return await asyncio.to_thread(self.blocking.wait_for_messages, queue, count, vhost, timeout)

    async def wait_for_consumers(
        self, queue: str, count: int = 1, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S
    ) -> None:
        await asyncio.to_thread(self.blocking.wait_for_consumers, queue, count, vhost, timeout)

    async def purge(self, queue: str, vhost: str = DEFAULT_VHOST) -> int:
        return await asyncio.to_thread(self.blocking.purge, queue, vhost)

    async def fail_next_connections(self, count: int) -> None:
        await asyncio.to_thread(self.blocking.fail_next_connections, count)

    async def close_connections(self, reason: str = "a test asked for it") -> int:
        return await asyncio.to_thread(self.blocking.close_connections, reason)

    async def drop_connections(self) -> int:
        return await asyncio.to_thread(self.blocking.drop_connections)

    @asynccontextmanager
    async def vhost(self, name: str | None = None) -> AsyncIterator[str]:
        async with entered(self.blocking.vhost(name)) as made:
            yield made

    @asynccontextmanager
    async def paused_deliveries(self) -> AsyncIterator[None]:
        async with entered(self.blocking.paused_deliveries()):
            yield

    @asynccontextmanager
    async def blocked_publishers(self) -> AsyncIterator[None]:
        async with entered(self.blocking.blocked_publishers()):
            yield


@asynccontextmanager
async def entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A blocking context manager, entered and left off the loop."""
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
