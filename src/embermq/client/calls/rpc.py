"""Remote calls over direct reply-to: what both shells share."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Unpack

from embermq.client.calls.once import given
from embermq.client.calls.queue import ConsumeOptions
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, as_bytes
from embermq.client.errors import ClientError, ConnectionClosed, RpcFailed
from embermq.wire.properties import Properties

log = logging.getLogger("embermq.client")

Callback = Callable[[Message], Coroutine[Any, Any, None]]
REPLY_TO = "amq.rabbitmq.reply-to"
FAILED = "embermq.rpc.failed"  # the type property of an answer that is the text of an error


class RpcHandle:
    """The calls that wait for their answers, which all come over one channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.waiters: dict[str | None, Any] = {}
        self._prefix = secrets.token_hex(6)  # no other client makes ids with this
        self._numbers = count(1)

    def next_id(self) -> str:
        return f"{self._prefix}.{next(self._numbers)}"

    def publish(self, what: str, timeout_s: float, *message: Any, properties: Properties) -> Any:
        """Publish a mandatory message, and wait for its confirm."""
        raise NotImplementedError

    def on_answer(self, message: Message) -> None:
        waiter = self.waiters.pop(message.properties.correlation_id, None)
        if waiter is not None and not waiter.done():  # else: it gave up waiting
            waiter.set_result(message)

    def on_end(self) -> None:
        """No more answers come."""
        error = self.channel.core.error or ConnectionClosed("the client of remote calls was closed")
        for waiter in list(self.waiters.values()):
            if not waiter.done():
                waiter.set_exception(error)


async def begin(client: RpcHandle) -> None:
    """Have the answers come."""
    await consume(client.channel, REPLY_TO, client.on_answer, client.on_end, no_ack=True)


async def consume(
    channel: Any, queue: str, callback: Any, on_end: Callable[[], None], **options: Unpack[ConsumeOptions]
) -> Any:
    """Have a callback called, on a channel that is closed if that cannot begin."""
    try:
        consumer = await given(channel.consume(queue, callback, **options))
        consumer.on_end = on_end
        return consumer
    except BaseException:
        channel.close_soon()
        raise


async def call(
    client: RpcHandle,
    body: Body,
    routing_key: str,
    exchange: str = "",
    *,
    properties: Properties | None = None,
    timeout_s: float = 30.0,
) -> Message:
    """The answer. PublishFailed when there is no server, RpcFailed when the other side raised."""
    began_s = time.monotonic()
    connection, what = client.channel.connection, f"the call to '{routing_key}'"
    correlation_id = client.next_id()
    waiter = client.waiters[correlation_id] = connection.new_waiter()
    try:
        ours = call_properties(properties, correlation_id)
        await given(client.publish(what, timeout_s, body, routing_key, exchange, properties=ours))
        left_s = round(timeout_s - (time.monotonic() - began_s), 1)
        answer: Message = await given(connection.wait(waiter, what, left_s))
    finally:
        client.waiters.pop(correlation_id, None)
    if answer.properties.type == FAILED:
        raise RpcFailed(answer.body.decode("utf-8", "replace"))
    return answer


async def close(client: RpcHandle) -> None:
    await given(client.channel.close())


def call_properties(properties: Properties | None, correlation_id: str) -> Properties:
    """The user's properties with ours; the user's own object stays as it is."""
    copy = Properties()
    for name in Properties.__slots__:
        setattr(copy, name, getattr(properties, name, None))
    copy.reply_to = REPLY_TO
    copy.correlation_id = correlation_id
    return copy


async def serve(
    channel: Any,
    queue: str,
    function: Callable[[Message], Any],
    publish: Callable[..., Any],
    shell: Callable[[Callback], Any],
    concurrency: int,
) -> Any:
    """Answer calls; `shell` makes a callback of the shell's kind. The channel ends with the consumer."""

    async def answer(message: Message) -> None:
        failed = None
        try:
            result = as_bytes(await given(function(message)))
        except Exception as error:
            log.exception("a remote call to '%s' failed", queue)
            failed, result = FAILED, f"{type(error).__name__}: {error}".encode()
        if message.properties.reply_to:
            correlation_id = message.properties.correlation_id
            ours = Properties(correlation_id=correlation_id, type=failed, delivery_mode=1)
            await given(publish(result, message.properties.reply_to, properties=ours))
        message.ack()

    def on_end() -> None:
        try:
            channel.close_soon()
        except ClientError:
            pass  # it has ended with its connection

    return await consume(channel, queue, shell(answer), on_end, concurrency=concurrency)
