"""A channel for coroutines: every method of the protocol as something to await."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from embermq.client.aio.consumer import AsyncConsumer, AsyncInbox, MessageCallback
from embermq.client.aio.queue import AsyncExchange, AsyncQueue
from embermq.client.calls import channel as calls
from embermq.client.calls import consumer as consumers
from embermq.client.calls.with_block import AsyncWithBlock
from embermq.client.core.channel import ChannelCore
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.core.stream_progress import Progress
from embermq.wire.methods import BasicConsume, BasicGet
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.client.aio.connection import AsyncConnection, Callback

FLUSH_BYTES = 64 * 1024  # so much in the buffer is sent at once, less at the end of the loop's turn
BATCH_STEP_BYTES = 256 * 1024


class AsyncChannel(calls.ChannelHandle[AsyncConsumer, MessageCallback], AsyncWithBlock):
    """Opened by `AsyncConnection.channel`.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: AsyncConnection, core: ChannelCore) -> None:
        self.connection: AsyncConnection = connection
        self.on_return: Callback | None = None
        self.closed_by_user = False
        self._core = core
        self._loop = connection.loop

    exchange_declare = calls.exchange_declare
    exchange_delete = calls.exchange_delete
    exchange_bind = calls.exchange_bind
    exchange_unbind = calls.exchange_unbind
    queue_declare = calls.queue_declare
    queue_bind = calls.queue_bind
    queue_unbind = calls.queue_unbind
    queue_purge = calls.queue_purge
    queue_delete = calls.queue_delete
    cancel = calls.cancel
    qos = calls.qos
    recover = calls.recover
    flow = calls.flow
    tx_select = calls.tx_select
    tx_commit = calls.tx_commit
    tx_rollback = calls.tx_rollback
    close = calls.close
    close_soon = calls.close_soon
    transaction = calls.transaction
    _leave = calls.leave

    # -- publishing

    def publish(
        self,
        body: Body,
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
    ) -> asyncio.Future[None]:
        """Publish; the future is done when the broker has confirmed. Await it now, later, or many at once.

        Its exception is PublishFailed when the broker did not take the message, or when `mandatory` is set
        and the message reached no queue. On a channel without confirms it is done at once.
        """
        core = self._core
        if core.error is not None:
            raise core.error
        payload, raw = as_bytes(body), raw_properties(properties)
        future = self._loop.create_future()
        receipt: Receipt | None = None
        if core.confirming:
            receipt = Receipt(1)
            receipt.waiter = future
        else:
            future.set_result(None)
        core.publish(core.buffer.route(exchange, routing_key, mandatory), raw, payload, mandatory, receipt)
        if len(core.unconfirmed.publications) == 1:
            self.connection.flush()  # nothing else is under way: the caller may wait for this confirm
        else:
            self._written()
        return future

    def publish_batch(
        self,
        messages: Iterable[Body | Outgoing],
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
    ) -> asyncio.Future[None]:
        """Publish many messages in few writes; the one future is done when all are confirmed.

        Its exception, PublishFailed, says how many were refused or returned; the others were published.
        """
        core = self._core
        raw = raw_properties(properties)
        receipt = Receipt(1)  # one for ourselves, until all are sent
        receipt.waiter = future = self._loop.create_future()
        remaining = iter(messages)
        more = True
        try:
            while more:
                if core.error is not None:
                    raise core.error
                more = core.publish_some(
                    remaining, exchange, routing_key, raw, mandatory, receipt, BATCH_STEP_BYTES
                )
                self._written()
        except BaseException:
            future.cancel()
            raise
        finally:
            receipt.settle(True, None)
        return future

    def _written(self) -> None:
        buffer = self._core.buffer
        if buffer.out.size >= FLUSH_BYTES:
            self.connection.flush()
        else:
            buffer.wake()

    # -- consuming

    consume = consumers.consume

    def queue(self, name: str = "") -> AsyncQueue:
        """A queue by its name, as an object; nothing is asked of the broker. No name: `declare` gets one."""
        return AsyncQueue(self, name)

    def exchange(self, name: str) -> AsyncExchange:
        """An exchange by its name, as an object; nothing is asked of the broker."""
        return AsyncExchange(self, name)

    async def get(self, queue: str = "", *, no_ack: bool = False) -> Message | None:
        """One message if there is one. For many, consume: that is faster by far."""
        message: Message | None = await self.call(BasicGet(queue, no_ack))
        return message

    def new_consumer(
        self, consume: BasicConsume, timeout_s: float | None, progress: Progress | None
    ) -> AsyncConsumer:
        return AsyncConsumer(self, AsyncInbox(self._core, consume, progress), timeout_s)
