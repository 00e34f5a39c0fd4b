"""Remote calls for coroutines: a client that awaits answers, a server that gives them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.connection import AsyncConnection
from embermq.client.aio.consumer import AsyncConsumer
from embermq.client.calls.rpc import REPLY_TO, Correlation, answer_properties, call_properties, checked
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, as_bytes
from embermq.client.errors import Timeout
from embermq.wire.properties import Properties

log = logging.getLogger("embermq.client")


class AsyncRpcClient:
    """`client = await AsyncRpcClient.open(connection)`; any number of tasks may call at the same time."""

    def __init__(self, channel: AsyncChannel) -> None:
        self._channel = channel
        self._correlation = Correlation()
        self._waiters: dict[str | None, asyncio.Future[Message]] = {}

    @classmethod
    async def open(cls, connection: AsyncConnection) -> Self:
        client = cls(await connection.channel())
        try:
            await client._channel.consume(REPLY_TO, client._on_answer, no_ack=True)
        except BaseException:
            client._channel.close_soon()
            raise
        return client

    async def call(
        self,
        body: Body,
        routing_key: str,
        exchange: str = "",
        *,
        properties: Properties | None = None,
        timeout_s: float = 30.0,
    ) -> Message:
        """The answer. PublishFailed when there is no server, RpcFailed when the other side raised."""
        correlation_id = self._correlation.next_id()
        waiter = self._waiters[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._channel.publish(
                    body,
                    routing_key,
                    exchange,
                    properties=call_properties(properties, correlation_id),
                    mandatory=True,
                )
                return checked(await waiter)
        except TimeoutError:
            raise Timeout(f"no answer from '{routing_key}' within {timeout_s:g} s") from None
        finally:
            self._waiters.pop(correlation_id, None)

    def _on_answer(self, message: Message) -> None:
        waiter = self._waiters.pop(message.properties.correlation_id, None)
        if waiter is not None and not waiter.done():  # else: it gave up waiting
            waiter.set_result(message)

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def serve_rpc_async(
    connection: AsyncConnection,
    queue: str,
    function: Callable[[Message], Awaitable[Body]],
    *,
    prefetch: int = 100,
    concurrency: int = 10,
) -> AsyncConsumer:
    """Answer calls to `queue`, `concurrency` at a time, until the result is cancelled.

    What `function` raises goes back to the caller as RpcFailed. A call is acked when its answer is published.
    """
    channel = await connection.channel(prefetch=prefetch)

    async def answer(message: Message) -> None:
        failed, result = False, b""
        try:
            result = as_bytes(await function(message))
        except Exception as error:
            log.exception("a remote call to '%s' failed", queue)
            failed, result = True, f"{type(error).__name__}: {error}".encode()
        if message.properties.reply_to:
            properties = answer_properties(message, failed=failed)
            await channel.publish(result, message.properties.reply_to, properties=properties)
        message.ack()

    try:
        return await channel.consume(queue, answer, concurrency=concurrency)
    except BaseException:
        channel.close_soon()
        raise
