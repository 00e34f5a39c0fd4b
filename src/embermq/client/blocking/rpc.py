"""Remote calls for blocking code: a client that waits for answers, a server that gives them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from embermq.client.blocking.connection import Connection
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.waiter import Waiter
from embermq.client.calls.rpc import REPLY_TO, Correlation, answer_properties, call_properties, checked
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, as_bytes
from embermq.client.errors import Timeout
from embermq.wire.properties import Properties

log = logging.getLogger("embermq.client")


class RpcClient:
    """Any number of threads may call at the same time; all answers come over one channel."""

    def __init__(self, connection: Connection) -> None:
        self._channel = connection.channel()
        self._correlation = Correlation()
        self._lock = threading.Lock()
        self._waiters: dict[str | None, Waiter] = {}
        try:
            self._consumer = self._channel.consume(REPLY_TO, self._on_answer, no_ack=True)
        except BaseException:
            self._channel.close_soon()
            raise

    def call(
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
        waiter = Waiter()
        with self._lock:
            self._waiters[correlation_id] = waiter
        try:
            self._channel.publish(
                body,
                routing_key,
                exchange,
                properties=call_properties(properties, correlation_id),
                mandatory=True,
                timeout_s=timeout_s,
            )
            if not waiter.wait(timeout_s):
                raise Timeout(f"no answer from '{routing_key}' within {timeout_s:g} s")
        finally:
            with self._lock:
                self._waiters.pop(correlation_id, None)
        answer: Message = waiter.result()
        return checked(answer)

    def _on_answer(self, message: Message) -> None:
        with self._lock:
            waiter = self._waiters.pop(message.properties.correlation_id, None)
        if waiter is not None:  # else: it gave up waiting
            waiter.set_result(message)

    def close(self) -> None:
        self._consumer.cancel()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve_rpc(
    connection: Connection, queue: str, function: Callable[[Message], Body], *, prefetch: int = 10
) -> Consumer:
    """Answer calls to `queue` in a thread; leave the result's `with` block, or cancel it, to end.

    What `function` raises goes back to the caller as RpcFailed. A call is acked when its answer is published.
    """
    channel = connection.channel(prefetch=prefetch)

    def answer(message: Message) -> None:
        failed, result = False, b""
        try:
            result = as_bytes(function(message))
        except Exception as error:
            log.exception("a remote call to '%s' failed", queue)
            failed, result = True, f"{type(error).__name__}: {error}".encode()
        if message.properties.reply_to:
            channel.publish_soon(
                result, message.properties.reply_to, properties=answer_properties(message, failed=failed)
            )
        message.ack()

    try:
        return channel.consume(queue, answer)
    except BaseException:
        channel.close_soon()
        raise
