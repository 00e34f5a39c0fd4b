"""Queues and exchanges as objects, for coroutines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Unpack

from embermq.client.aio.consumer import AsyncConsumer, MessageCallback
from embermq.client.calls import queue
from embermq.client.calls.queue import ConsumeOptions, ExchangeHandle, PublishOptions, QueueHandle
from embermq.client.core.message import Message
from embermq.client.core.publication import Body

if TYPE_CHECKING:
    from embermq.client.aio.channel import AsyncChannel


class AsyncExchange(ExchangeHandle):
    """An exchange by its name. Made by `AsyncChannel.exchange`."""

    channel: AsyncChannel

    declare = queue.declare_exchange
    bind = queue.bind_exchange
    unbind = queue.unbind_exchange
    delete = queue.delete_exchange

    def publish(
        self, body: Body, routing_key: str = "", **options: Unpack[PublishOptions]
    ) -> asyncio.Future[None]:
        """As `AsyncChannel.publish`, to this exchange."""
        return self.channel.publish(body, routing_key, self.name, **options)


class AsyncQueue(QueueHandle):
    """A queue by its name. Made by `AsyncChannel.queue`."""

    channel: AsyncChannel

    declare = queue.declare
    bind = queue.bind
    unbind = queue.unbind
    look = queue.look
    purge = queue.purge
    delete = queue.delete

    def publish(self, body: Body, **options: Unpack[PublishOptions]) -> asyncio.Future[None]:
        """As `AsyncChannel.publish`, straight into this queue."""
        return self.channel.publish(body, self.name, **options)

    async def consume(
        self, callback: MessageCallback | None = None, **options: Unpack[ConsumeOptions]
    ) -> AsyncConsumer:
        """As `AsyncChannel.consume`."""
        return await self.channel.consume(self.name, callback, **options)

    async def get(self, *, no_ack: bool = False) -> Message | None:
        """One message if there is one."""
        return await self.channel.get(self.name, no_ack=no_ack)
