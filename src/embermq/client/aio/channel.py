"""A channel for coroutines: every method of the protocol as something to await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.aio.consumer import AsyncConsumer, AsyncInbox, MessageCallback
from embermq.client.aio.queue import AsyncExchange, AsyncQueue
from embermq.client.calls import channel as calls
from embermq.client.calls.consumer import OnError, check_on_error
from embermq.client.calls.stream import check_acks
from embermq.client.core.channel import ChannelCore
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.core.requests import Arguments, consume_method, consume_request, request_for
from embermq.client.core.stream_progress import Progress
from embermq.wire.methods import BasicConsume, BasicGet, Method
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.client.aio.connection import AsyncConnection, Callback

FLUSH_BYTES = 64 * 1024  # so much in the buffer is sent at once, less at the end of the loop's turn
BATCH_STEP_BYTES = 256 * 1024


class AsyncChannel(calls.ChannelHandle):
    """Opened by `AsyncConnection.channel`.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: AsyncConnection, core: ChannelCore) -> None:
        self.connection = connection
        self.on_return: Callback | None = None
        self.closed_by_user = False
        self._core = core
        self._loop = connection.loop

    async def call(self, method: Method, timeout_s: float | None = None) -> Any:
        """Send any method and wait for its answer; what it declares is restored after a reconnection."""
        return await self.connection.call(self._core, request_for(self._core, method), timeout_s)

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await calls.leave(self, kind)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block, roll back when it raises."""
        await calls.begin_transaction(self)
        try:
            yield
        except BaseException:
            if not self.is_closed:
                await self.tx_rollback()
            raise
        await self.tx_commit()

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

    async def consume(
        self,
        queue: str = "",
        callback: MessageCallback | None = None,
        *,
        concurrency: int = 1,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        consumer_tag: str = "",
        selector: str | None = None,
        arguments: Arguments = None,
        timeout_s: float | None = None,
        on_error: OnError = "stop",
    ) -> AsyncConsumer:
        """Begin to consume. Iterate over the result, or give a callback (a function or coroutine function).

        With `timeout_s` the iteration ends when nothing came for so long. `prefetch` holds for this consumer
        and for those after it on the channel. No name means the queue declared last. `selector` is a
        condition on the messages (EmberMQ only). What a callback raises ends the consumer; with `on_error`
        "requeue" or "reject" it is logged, and the consumer goes on.
        """
        check_on_error(on_error)
        if prefetch is not None:
            await self.qos(prefetch)
        method = consume_method(queue, consumer_tag, no_local, no_ack, exclusive, arguments, selector)
        consumer = await self.begin(method, timeout_s)
        if callback is not None:
            consumer.start(callback, concurrency, on_error)
        return consumer

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

    async def begin(
        self, consume: BasicConsume, timeout_s: float | None, progress: Progress | None = None
    ) -> AsyncConsumer:
        """Say basic.consume; `progress` is that of a stream."""
        check_acks(self.connection.is_embermq, consume)
        consumer = AsyncConsumer(self, AsyncInbox(self._core, consume, progress), timeout_s)
        await self.connection.call(self._core, consume_request(self._core, consumer.inbox))
        return consumer
