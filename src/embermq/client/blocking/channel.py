"""A channel for blocking code: every method of the protocol as a call that waits for its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.blocking.column_consumer import ColumnConsumer
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.declaring import Declaring
from embermq.client.blocking.waiter import Waiter
from embermq.client.core.calls import Arguments, consume_method, consume_request, request_for
from embermq.client.core.channel import ChannelCore
from embermq.client.core.columns import Values, rows_of
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.errors import Timeout
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
    from embermq.client.blocking.connection import Connection

FLUSH_BYTES = 64 * 1024  # so much in the buffer is sent by the thread that filled it
BATCH_STEP_BYTES = 256 * 1024
BATCH_STEP_MESSAGES = 2000
UNCONFIRMED_POLL_S = 0.01
UNCONFIRMED_MAX = 100_000  # more than this and `publish_soon` waits for the oldest


class Confirmation:
    """The promise of a confirm: `wait` for it, or look whether it is `done`."""

    __slots__ = ("_connection", "_receipt")

    def __init__(self, connection: Connection, receipt: Receipt) -> None:
        self._connection = connection
        self._receipt = receipt

    @property
    def done(self) -> bool:
        return self._receipt.done

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the broker has taken everything; PublishFailed when it refused or returned some."""
        receipt = self._receipt
        with self._connection._engine.lock:
            if not receipt.done and receipt.waiter is None:
                receipt.waiter = Waiter()
            waiter = receipt.waiter
        if waiter is not None and not waiter.done():
            self._connection.wait(waiter, "a publish", timeout_s)
        failure = receipt.failure()
        if failure is not None:
            raise failure


class Channel(Declaring):
    """Opened by `Connection.channel`. Any number of threads may publish on it at the same time.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: Connection, core: ChannelCore) -> None:
        self.connection = connection
        self.on_return: Callable[[Message], None] | None = None
        self.closed_by_user = False
        self._core = core
        self._engine = core.engine

    @property
    def core(self) -> ChannelCore:
        """The sans-IO half of the channel."""
        return self._core

    @property
    def number(self) -> int:
        return self._core.number

    @property
    def is_closed(self) -> bool:
        return self._core.error is not None

    @property
    def unconfirmed_count(self) -> int:
        return self._core.unconfirmed_count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_closed and not self.connection.is_closed:
            self.close()

    def close(self, reply_text: str = "goodbye") -> None:
        self.closed_by_user = True
        if not self.is_closed:
            self.call(ChannelClose(200, reply_text))
        self.connection.forget(self._core)

    def call(self, method: Method, timeout_s: float | None = None) -> Any:
        """Send any method and wait for its answer; what it declares is restored after a reconnection."""
        return self.connection.call(self._core, request_for(self._core, method), timeout_s)

    # -- publishing

    def publish(
        self,
        body: Body,
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Publish and, on a channel with confirms, wait until the broker has taken the message.

        PublishFailed when it did not, or when `mandatory` is set and the message reached no queue.
        """
        if self._core.confirming:
            self._submit(body, routing_key, exchange, properties, mandatory).wait(timeout_s)
        else:
            self.publish_soon(body, routing_key, exchange, properties=properties, mandatory=mandatory)

    def publish_soon(
        self,
        body: Body,
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
    ) -> Confirmation:
        """Publish without waiting; the result can be waited for later."""
        core, engine = self._core, self._engine
        confirmation = self._submit(body, routing_key, exchange, properties, mandatory)
        if core.unconfirmed_count > UNCONFIRMED_MAX:
            self._wait_for_oldest()
        if engine.out.size >= FLUSH_BYTES:
            self.connection.flush()
        elif not engine.awake:
            engine.wake()
        return confirmation

    def _submit(
        self,
        body: Body,
        routing_key: str,
        exchange: str,
        properties: Properties | bytes | None,
        mandatory: bool,
    ) -> Confirmation:
        """Into the buffer. Somebody has to send it."""
        core, engine = self._core, self._engine
        payload, raw = as_bytes(body), raw_properties(properties)
        receipt = Receipt(1 if core.confirming else 0)
        with engine.lock:
            if core.error is not None:
                raise core.error
            core.publish(engine.route(exchange, routing_key, mandatory), raw, payload, mandatory, receipt)
        return Confirmation(self.connection, receipt)

    def publish_batch(
        self,
        messages: Iterable[Body | Outgoing],
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Publish many messages in few writes and wait once for all confirms.

        PublishFailed says how many were refused or returned; the others have been published.
        """
        confirmation = self.publish_batch_soon(
            messages, routing_key, exchange, properties=properties, mandatory=mandatory
        )
        if self._core.confirming:
            confirmation.wait(timeout_s)

    def publish_batch_soon(
        self,
        messages: Iterable[Body | Outgoing],
        routing_key: str = "",
        exchange: str = "",
        *,
        properties: Properties | bytes | None = None,
        mandatory: bool = False,
    ) -> Confirmation:
        """As `publish_batch` without the wait. An iterator is consumed while its messages are being sent."""
        core, engine = self._core, self._engine
        raw = raw_properties(properties)
        receipt = Receipt(1)  # one for ourselves, until all are sent
        source = iter(messages)
        try:
            # Taken from the user's iterator before the lock is: it may be slow, and heartbeats need the lock.
            while items := list(islice(source, BATCH_STEP_MESSAGES)):
                step = partial(
                    core.publish_some,
                    iter(items),
                    exchange,
                    routing_key,
                    raw,
                    mandatory,
                    receipt,
                    BATCH_STEP_BYTES,
                )
                while self._send_step(step):
                    pass
        finally:
            with engine.lock:
                receipt.settle(True, None)
        return Confirmation(self.connection, receipt)

    def publish_columns(
        self,
        bodies: Values,
        routing_key: str | Values = "",
        exchange: str | Values = "",
        *,
        properties: Properties | bytes | Values | None = None,
        mandatory: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """As `publish_batch`, for messages that stand in columns: no object is made for any of them.

        What is not given as a column is the same for all. A column of properties holds what
        `Properties.encode` gives. The buffers must not change before everything is confirmed.
        """
        confirmation = self.publish_columns_soon(
            bodies, routing_key, exchange, properties=properties, mandatory=mandatory
        )
        if self._core.confirming:
            confirmation.wait(timeout_s)

    def publish_columns_soon(
        self,
        bodies: Values,
        routing_key: str | Values = "",
        exchange: str | Values = "",
        *,
        properties: Properties | bytes | Values | None = None,
        mandatory: bool = False,
    ) -> Confirmation:
        """As `publish_columns` without the wait."""
        core, engine = self._core, self._engine
        rows = rows_of(bodies, routing_key, exchange, properties, mandatory)
        receipt = Receipt(1)  # one for ourselves, until all are sent
        row = 0
        try:
            while row < rows.count:
                row = self._send_step(
                    partial(core.publish_rows, rows, row, mandatory, receipt, BATCH_STEP_BYTES)
                )
        finally:
            with engine.lock:
                receipt.settle(True, None)
        return Confirmation(self.connection, receipt)

    def _send_step(self, step: Callable[[], int]) -> int:
        """Publish a part of many messages; what `step` answers. Others have the lock between two of them."""
        with self._engine.lock:
            if self._core.error is not None:
                raise self._core.error
            answer = step()
        if self._core.unconfirmed_count > UNCONFIRMED_MAX:
            self._wait_for_oldest()
        self.connection.flush()
        return answer

    def _wait_for_oldest(self) -> None:
        """Too much is unconfirmed: give the broker time, as long as any call may take."""
        self.connection.flush()
        limit_s = self.connection.settings.call_timeout_s
        deadline_s = math.inf if limit_s is None else time.monotonic() + limit_s
        while self._core.unconfirmed_count > UNCONFIRMED_MAX and self._core.error is None:
            time.sleep(UNCONFIRMED_POLL_S)
            if time.monotonic() > deadline_s:
                raise Timeout(f"{self._core.unconfirmed_count} publishes without a confirm for {limit_s:g} s")

    # -- consuming

    def consume(
        self,
        queue: str = "",
        callback: Callable[[Message], None] | None = None,
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        consumer_tag: str = "",
        arguments: Arguments = None,
        timeout_s: float | None = None,
    ) -> Consumer:
        """Begin to consume. Iterate over the result, or give a callback, which runs in a thread of its own.

        With `timeout_s` the iteration ends when nothing came for so long. `prefetch` holds for this consumer
        and for those after it on the channel. No name means the queue declared last.
        """
        if prefetch is not None:
            self.qos(prefetch)
        method = consume_method(queue, consumer_tag, no_local, no_ack, exclusive, arguments)
        consumer = Consumer(self, self._core, method, timeout_s)
        self.connection.call(self._core, consume_request(self._core, consumer))
        if callback is not None:
            consumer.start(callback)
        return consumer

    def consume_columns(
        self,
        queue: str = "",
        wanted: Collection[str] = ("body",),
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        arguments: Arguments = None,
    ) -> ColumnConsumer:
        """Begin to consume without an object for each message: `fetch` gives columns, as Apache Arrow does.

        `wanted` says which: body, exchange, routing_key, properties, offset, redelivered.
        """
        if prefetch is not None:
            self.qos(prefetch)
        method = consume_method(queue, "", False, no_ack, False, arguments)
        consumer = ColumnConsumer(self, self._core, method, wanted)
        self.connection.call(self._core, consume_request(self._core, consumer))
        return consumer

    def cancel(self, consumer_tag: str) -> None:
        self.call(BasicCancel(consumer_tag))

    def get(self, queue: str = "", *, no_ack: bool = False) -> Message | None:
        """One message if there is one. For many, consume: that is faster by far."""
        message: Message | None = self.call(BasicGet(queue, no_ack))
        return message

    def qos(self, prefetch_count: int, *, prefetch_size: int = 0, global_: bool = False) -> None:
        """How many deliveries may be unsettled: per consumer from now on, or for the whole channel."""
        self.call(BasicQos(prefetch_size, prefetch_count, global_))

    def recover(self, *, requeue: bool = True) -> None:
        """Have everything that is not settled delivered again."""
        self.call(BasicRecover(requeue))

    def flow(self, active: bool) -> bool:
        """Ask the broker to stop or go on delivering (RabbitMQ refuses to stop)."""
        answer: ChannelFlowOk = self.call(ChannelFlow(active))
        return answer.active

    # -- transactions

    def tx_select(self) -> None:
        """From now on publishes and acks count only once they are committed. Needs `confirms=False`."""
        self.call(TxSelect())

    def tx_commit(self) -> None:
        """Do all of it; TransactionLost when the connection broke in between."""
        self.call(TxCommit())

    def tx_rollback(self) -> None:
        self.call(TxRollback())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, roll back when it raises."""
        if not self._core.transactional or not self._core.ready:  # asking waits for the connection
            self.tx_select()
        try:
            yield
        except BaseException:
            if not self.is_closed:
                self.tx_rollback()
            raise
        self.tx_commit()
