"""A channel for blocking code: every method of the protocol as a call that waits for its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from embermq.client.blocking.column_consumer import ColumnConsumer
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.inbox import BlockingInbox
from embermq.client.blocking.queue import Exchange, Queue
from embermq.client.blocking.waiter import Waiter
from embermq.client.calls import channel as calls
from embermq.client.calls import consumer as consumers
from embermq.client.calls.consumer import check_acks, check_no_stream
from embermq.client.calls.once import blocking, blocking_block
from embermq.client.calls.with_block import WithBlock
from embermq.client.core.channel import ChannelCore
from embermq.client.core.columns import Values, rows_of
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.core.requests import Arguments, consume_method, consume_request
from embermq.client.core.stream_progress import Progress
from embermq.client.errors import Timeout
from embermq.wire.methods import BasicConsume, BasicGet
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.client.blocking.connection import Connection

COMMANDS_MAX = 20_000  # messages that the thread of the connection has not looked at yet
OUTPUT_BYTES_MAX = 4 * 1024 * 1024
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

    def __repr__(self) -> str:
        receipt = self._receipt
        state = repr(receipt.failure() or "confirmed") if receipt.done else f"{receipt.outstanding} awaited"
        return f"<Confirmation, {state}>"

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the broker has taken everything; PublishFailed when it refused or returned some."""
        receipt = self._receipt
        if not receipt.done:
            waiter = receipt.waiter
            if waiter is None:
                waiter = receipt.waiter = Waiter()
            if not receipt.done:  # else it may have ended before our waiter was there
                self._connection.wait(waiter, "a publish", timeout_s)
        failure = receipt.failure()
        if failure is not None:
            raise failure


class Channel(calls.ChannelHandle[Consumer, Callable[[Message], None]], WithBlock):
    """Opened by `Connection.channel`. Any number of threads may publish on it at the same time.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: Connection, core: ChannelCore) -> None:
        assert core.commands is not None
        self.connection: Connection = connection
        self.on_return: Callable[[Message], None] | None = None
        self.closed_by_user = False
        self._core = core
        self._commands = core.commands

    exchange_declare = blocking(calls.exchange_declare)
    exchange_delete = blocking(calls.exchange_delete)
    exchange_bind = blocking(calls.exchange_bind)
    exchange_unbind = blocking(calls.exchange_unbind)
    queue_declare = blocking(calls.queue_declare)
    queue_bind = blocking(calls.queue_bind)
    queue_unbind = blocking(calls.queue_unbind)
    queue_purge = blocking(calls.queue_purge)
    queue_delete = blocking(calls.queue_delete)
    cancel = blocking(calls.cancel)
    qos = blocking(calls.qos)
    recover = blocking(calls.recover)
    flow = blocking(calls.flow)
    tx_select = blocking(calls.tx_select)
    tx_commit = blocking(calls.tx_commit)
    tx_rollback = blocking(calls.tx_rollback)
    close = blocking(calls.close)
    close_soon = calls.close_soon
    transaction = blocking_block(calls.transaction)
    _leave = blocking(calls.leave)  # type: ignore[arg-type]  # a channel is a WithBlock

    # -- consuming

    consume = blocking(consumers.consume)

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
        check_acks(self.connection.is_embermq, method)
        check_no_stream(self, method)
        consumer = ColumnConsumer(self, method, wanted)
        self.connection.call(self._core, consume_request(self._core, consumer.inbox))
        return consumer

    def queue(self, name: str = "") -> Queue:
        """A queue by its name, as an object; nothing is asked of the broker. No name: `declare` gets one."""
        return Queue(self, name)

    def exchange(self, name: str) -> Exchange:
        """An exchange by its name, as an object; nothing is asked of the broker."""
        return Exchange(self, name)

    def get(self, queue: str = "", *, no_ack: bool = False) -> Message | None:
        """One message if there is one. For many, consume: that is faster by far."""
        # Nothing is called between the answer and this return: a signal handler might raise there.
        return self.call(BasicGet(queue, no_ack))  # type: ignore[no-any-return]

    def new_consumer(
        self, consume: BasicConsume, timeout_s: float | None, progress: Progress | None
    ) -> Consumer:
        return Consumer(self, BlockingInbox(self._core, consume, progress), timeout_s)

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
        confirmation = self._submit(body, routing_key, exchange, properties, mandatory)
        if len(self._commands.queue) > COMMANDS_MAX or self._core.buffer.out.size > OUTPUT_BYTES_MAX:
            self.connection.flush()
        if self._core.unconfirmed.count > UNCONFIRMED_MAX:
            self._wait_for_oldest()
        return confirmation

    def _submit(
        self,
        body: Body,
        routing_key: str,
        exchange: str,
        properties: Properties | bytes | None,
        mandatory: bool,
    ) -> Confirmation:
        """Have the thread of the connection send it."""
        core = self._core
        payload, raw = as_bytes(body), raw_properties(properties)
        if core.error is not None:
            raise core.error
        route = core.buffer.route(exchange, routing_key, mandatory)
        receipt = Receipt(1 if core.confirming else 0)
        self._commands.post(core.publish_or_abandon, route, raw, payload, mandatory, receipt)
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
        core = self._core
        raw = raw_properties(properties)
        receipt = Receipt(1)  # one for ourselves, until all are sent
        source = iter(messages)
        room: Waiter | None = None
        try:
            # Taken from the user's iterator here: it may be slow, and the connection's thread must go on.
            while items := list(islice(source, BATCH_STEP_MESSAGES)):
                step = partial(core.publish_some, iter(items), exchange, routing_key, raw, mandatory, receipt)
                room = self._send_step(partial(step, BATCH_STEP_BYTES), room)
        finally:
            self._commands.post(receipt.settle, True, None)
        if room is not None:
            self.connection.wait(room, "a publish")
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
        core = self._core
        rows = rows_of(bodies, routing_key, exchange, properties, mandatory)
        receipt = Receipt(1)  # one for ourselves, until all are sent
        row = 0

        def step() -> bool:
            nonlocal row
            row = core.publish_rows(rows, row, mandatory, receipt, BATCH_STEP_BYTES)
            return row < rows.count

        room: Waiter | None = None
        try:
            if rows.count:
                room = self._send_step(step, None)
        finally:
            self._commands.post(receipt.settle, True, None)
        if room is not None:
            self.connection.wait(room, "a publish")
        return Confirmation(self.connection, receipt)

    def _send_step(self, step: Callable[[], bool], before: Waiter | None) -> Waiter:
        """Publish a part of many messages once there is room for it; the result waits until it is sent.

        `step` answers whether there is more: others have their turn before that.
        """
        if before is not None:
            self.connection.wait(before, "a publish")
        if self._core.unconfirmed.count > UNCONFIRMED_MAX:
            self._wait_for_oldest()
        step_done = Waiter()
        self._commands.post(self._run_step, step, step_done)
        return step_done

    def _run_step(self, step: Callable[[], bool], step_done: Waiter) -> None:
        """In the thread of the connection."""
        try:
            if self._core.error is not None:
                raise self._core.error
            more = step()
        except Exception as error:
            step_done.set_exception(error)
            return
        if more:
            room = Waiter()
            room.then(lambda: self._run_step(step, step_done))
            self.connection.when_room(room)
        else:
            self.connection.when_room(step_done)

    def _wait_for_oldest(self) -> None:
        """Too much is unconfirmed: give the broker time, as long as any call may take."""
        limit_s = self.connection.settings.call_timeout_s
        deadline_s = math.inf if limit_s is None else time.monotonic() + limit_s
        while self._core.unconfirmed.count > UNCONFIRMED_MAX and self._core.error is None:
            time.sleep(UNCONFIRMED_POLL_S)
            if time.monotonic() > deadline_s:
                raise Timeout(f"{self._core.unconfirmed.count} publishes without a confirm for {limit_s:g} s")
