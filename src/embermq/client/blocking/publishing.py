"""The part of a blocking channel that publishes: one message or many, waited for or not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from embermq.client.blocking.waiter import Waiter
from embermq.client.core.channel import ChannelCore
from embermq.client.core.columns import Values, rows_of
from embermq.client.core.engine import Engine
from embermq.client.core.publication import Body, Outgoing, Receipt, as_bytes, raw_properties
from embermq.client.errors import Timeout
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

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the broker has taken everything; PublishFailed when it refused or returned some."""
        receipt = self._receipt
        if not receipt.done:
            waiter = receipt.waiter
            if waiter is None:
                waiter = receipt.waiter = Waiter()
            if not receipt.done:  # else nobody may have seen our waiter
                self._connection.wait(waiter, "a publish", timeout_s)
        failure = receipt.failure()
        if failure is not None:
            raise failure


class Publishing:
    connection: Connection
    _core: ChannelCore
    _engine: Engine

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
        engine = self._engine
        confirmation = self._submit(body, routing_key, exchange, properties, mandatory)
        if len(engine.commands) > COMMANDS_MAX or engine.out.size > OUTPUT_BYTES_MAX:
            self.connection.flush()
        if self._core.unconfirmed_count > UNCONFIRMED_MAX:
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
        core, engine = self._core, self._engine
        payload, raw = as_bytes(body), raw_properties(properties)
        if core.error is not None:
            raise core.error
        route = engine.route(exchange, routing_key, mandatory)
        receipt = Receipt(1 if core.confirming else 0)
        engine.post(core.publish_or_abandon, route, raw, payload, mandatory, receipt)
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
        room: Waiter | None = None
        try:
            # Taken from the user's iterator here: it may be slow, and the connection's thread must go on.
            while items := list(islice(source, BATCH_STEP_MESSAGES)):
                step = partial(core.publish_some, iter(items), exchange, routing_key, raw, mandatory, receipt)
                room = self._send_step(partial(step, BATCH_STEP_BYTES), room)
        finally:
            engine.post(receipt.settle, True, None)
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
        core, engine = self._core, self._engine
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
            engine.post(receipt.settle, True, None)
        if room is not None:
            self.connection.wait(room, "a publish")
        return Confirmation(self.connection, receipt)

    def _send_step(self, step: Callable[[], bool], before: Waiter | None) -> Waiter:
        """Publish a part of many messages once there is room for it; the result waits until it is sent.

        `step` answers whether there is more: others have their turn before that.
        """
        if before is not None:
            self.connection.wait(before, "a publish")
        if self._core.unconfirmed_count > UNCONFIRMED_MAX:
            self._wait_for_oldest()
        step_done = Waiter()
        self._engine.post(self._run_step, step, step_done)
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
        while self._core.unconfirmed_count > UNCONFIRMED_MAX and self._core.error is None:
            time.sleep(UNCONFIRMED_POLL_S)
            if time.monotonic() > deadline_s:
                raise Timeout(f"{self._core.unconfirmed_count} publishes without a confirm for {limit_s:g} s")
