"""Remote calls for coroutines: a client that awaits answers, a server that gives them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

from embermq.client.aio.connection import AsyncConnection
from embermq.client.aio.consumer import AsyncConsumer
from embermq.client.calls import rpc
from embermq.client.calls.with_block import AsyncWithBlock
from embermq.client.core.message import Message
from embermq.client.core.publication import Body
from embermq.wire.properties import Properties


class AsyncRpcClient(rpc.RpcHandle, AsyncWithBlock):
    """`client = await AsyncRpcClient.open(connection)`; any number of tasks may call at the same time."""

    @classmethod
    async def open(cls, connection: AsyncConnection) -> Self:
        client = cls(await connection.channel())
        await rpc.begin(client)
        return client

    async def publish(self, what: str, timeout_s: float, *message: Any, properties: Properties) -> None:
        confirm = self.channel.publish(*message, properties=properties, mandatory=True)
        await self.channel.connection.wait(confirm, what, timeout_s)

    call = rpc.call
    close = rpc.close


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
    consumer: AsyncConsumer = await rpc.serve(
        channel, queue, function, channel.publish, lambda answer: answer, concurrency
    )
    return consumer
