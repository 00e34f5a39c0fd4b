"""A channel for coroutines: every method of the protocol as something to await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.aio.consumer import AsyncConsumer, MessageCallback
from embermq.client.aio.declaring import AsyncDeclaring
from embermq.client.core.channel import ChannelCore
from embermq.client.core.consumers import OnError, check_on_error
from embermq.client.core.handles import ChannelHandle
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.core.requests import Arguments, consume_method, consume_request, request_for
from embermq.wire.methods import (
    BasicCancel,
    BasicGet,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.client.aio.connection import AsyncConnection, Callback

FLUSH_BYTES = 64 * 1024  # so much in the buffer is sent at once, less at the end of the loop's turn
BATCH_STEP_BYTES = 256 * 1024


class AsyncChannel(ChannelHandle, AsyncDeclaring):
    """Opened by `AsyncConnection.channel`.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: AsyncConnection, core: ChannelCore) -> None:
        self.connection = connection
        self.on_return: Callback | None = None
        self.closed_by_user = False
        self._core = core
        self._engine = core.engine
        self._loop = connection.loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_closed or self.connection.is_closed:
            return
        if kind is not None and self.connection.blocked_reason is not None:
            # No answer will come while the broker reads nothing, and the error should not wait for one.
            self.forsake()
            return
        await self.close()

    async def close(self, reply_text: str = "goodbye") -> None:
        self.closed_by_user = True
        if not self.is_closed:
            await self.call(ChannelClose(200, reply_text))
        self.connection.forget(self._core)

    def forsake(self) -> None:
        """As `close`, without waiting for the answer."""
        self.closed_by_user = True
        self.connection.tell(self._core, request_for(self._core, ChannelClose(200, "goodbye")))

    async def call(self, method: Method, timeout_s: float | None = None) -> Any:
        """Send any method and wait for its answer; what it declares is restored after a reconnection."""
        return await self.connection.call(self._core, request_for(self._core, method), timeout_s)

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
        core, engine = self._core, self._engine
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
        core.publish(engine.route(exchange, routing_key, mandatory), raw, payload, mandatory, receipt)
        if len(core.unconfirmed) == 1:
            self.connection.flush()  # nothing else is under way: who waits for each confirm waits for this
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
        engine = self._engine
        if engine.out.size >= FLUSH_BYTES:
            self.connection.flush()
        elif not engine.awake:
            engine.wake()

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
        arguments: Arguments = None,
        timeout_s: float | None = None,
        on_error: OnError = "stop",
    ) -> AsyncConsumer:
        """Begin to consume. Iterate over the result, or give a callback (a function or coroutine function).

        With `timeout_s` the iteration ends when nothing came for so long. `prefetch` holds for this consumer
        and for those after it on the channel. No name means the queue declared last. What a callback raises
        ends the consumer; with `on_error` "requeue" or "reject" it is logged, and the consumer goes on.
        """
        check_on_error(on_error)
        if prefetch is not None:
            await self.qos(prefetch)
        method = consume_method(queue, consumer_tag, no_local, no_ack, exclusive, arguments)
        consumer = AsyncConsumer(self, self._core, method, timeout_s)
        await self.connection.call(self._core, consume_request(self._core, consumer))
        if callback is not None:
            consumer.start(callback, concurrency, on_error)
        return consumer

    async def cancel(self, consumer_tag: str) -> None:
        await self.call(BasicCancel(consumer_tag))

    async def get(self, queue: str = "", *, no_ack: bool = False) -> Message | None:
        """One message if there is one. For many, consume: that is faster by far."""
        message: Message | None = await self.call(BasicGet(queue, no_ack))
        return message

    async def qos(self, prefetch_count: int, *, prefetch_size: int = 0, global_: bool = False) -> None:
        """How many deliveries may be unsettled: per consumer from now on, or for the whole channel."""
        await self.call(BasicQos(prefetch_size, prefetch_count, global_))

    async def recover(self, *, requeue: bool = True) -> None:
        """Have everything that is not settled delivered again."""
        await self.call(BasicRecover(requeue))

    async def flow(self, active: bool) -> bool:
        """Ask the broker to stop or go on delivering (RabbitMQ refuses to stop)."""
        answer: ChannelFlowOk = await self.call(ChannelFlow(active))
        return answer.active

    # -- transactions

    async def tx_select(self) -> None:
        """From now on publishes and acks count only once they are committed. Needs `confirms=False`."""
        await self.call(TxSelect())

    async def tx_commit(self) -> None:
        """Do all of it; TransactionLost when the connection broke in between."""
        await self.call(TxCommit())

    async def tx_rollback(self) -> None:
        await self.call(TxRollback())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block, roll back when it raises."""
        if not self._core.transactional or not self._core.ready:  # asking waits for the connection
            await self.tx_select()
        try:
            yield
        except BaseException:
            if not self.is_closed:
                await self.tx_rollback()
            raise
        await self.tx_commit()
