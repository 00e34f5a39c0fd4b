"""The methods of AMQP that a user calls on a channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from embermq.client.calls import connection as connections
from embermq.client.calls.connection import ConnectionHandle
from embermq.client.calls.once import given
from embermq.client.core.channel import ChannelCore
from embermq.client.core.requests import Arguments, request_for
from embermq.client.core.stream_progress import Progress
from embermq.client.core.topology import QueueInfo
from embermq.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)

C = TypeVar("C")  # the shell's consumer
F = TypeVar("F")  # its callback


class ChannelHandle(Generic[C, F]):
    """What a channel tells of itself."""

    connection: ConnectionHandle[Any]
    closed_by_user: bool
    _core: ChannelCore

    def call(self, method: Method, timeout_s: float | None = None) -> Any:
        """Send any method and wait for its answer; what it declares is restored after a reconnection."""
        return self.connection.call(self._core, request_for(self._core, method), timeout_s)

    def new_consumer(self, consume: BasicConsume, timeout_s: float | None, progress: Progress | None) -> C:
        """A consumer of the shell's kind, of which the broker does not know yet."""
        raise NotImplementedError

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

    def __repr__(self) -> str:
        core = self._core
        kind = "transactions" if core.transactional else "confirms" if core.confirming else "no confirms"
        state = (
            "closed"
            if self.is_closed
            else f"{len(core.consumers)} consumers, {core.unconfirmed.count} unconfirmed"
        )
        return f"<{type(self).__name__} {self.number}, {kind}, {'closed' if self.is_closed else state}>"

    @property
    def unconfirmed_count(self) -> int:
        return self._core.unconfirmed.count


AnyChannel = ChannelHandle[Any, Any]


# -- exchanges


async def exchange_declare(
    channel: AnyChannel,
    exchange: str,
    type: str = "direct",
    *,
    passive: bool = False,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments = None,
) -> None:
    """Make an exchange, or with `passive` only look whether it is there."""
    await given(
        channel.call(
            ExchangeDeclare(
                exchange, type, passive, durable, auto_delete, internal, False, dict(arguments or {})
            )
        )
    )


async def exchange_delete(channel: AnyChannel, exchange: str, *, if_unused: bool = False) -> None:
    await given(channel.call(ExchangeDelete(exchange, if_unused)))


async def exchange_bind(
    channel: AnyChannel,
    destination: str,
    source: str,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    """Have what reaches `source` with this key reach `destination` too."""
    await given(channel.call(ExchangeBind(destination, source, routing_key, False, dict(arguments or {}))))


async def exchange_unbind(
    channel: AnyChannel,
    destination: str,
    source: str,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    await given(channel.call(ExchangeUnbind(destination, source, routing_key, False, dict(arguments or {}))))


# -- queues


async def queue_declare(
    channel: AnyChannel,
    queue: str = "",
    *,
    passive: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Arguments = None,
) -> QueueInfo:
    """Make a queue, or with `passive` only look. Without a name the broker chooses one (see `.name`)."""
    info: QueueInfo = await given(
        channel.call(
            QueueDeclare(queue, passive, durable, exclusive, auto_delete, False, dict(arguments or {}))
        )
    )
    return info


async def queue_bind(
    channel: AnyChannel, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments = None
) -> None:
    await given(channel.call(QueueBind(queue, exchange, routing_key, False, dict(arguments or {}))))


async def queue_unbind(
    channel: AnyChannel, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments = None
) -> None:
    await given(channel.call(QueueUnbind(queue, exchange, routing_key, dict(arguments or {}))))


async def queue_purge(channel: AnyChannel, queue: str = "") -> int:
    """Throw away what waits; how many messages that were."""
    answer: QueuePurgeOk = await given(channel.call(QueuePurge(queue)))
    return answer.message_count


async def queue_delete(
    channel: AnyChannel, queue: str = "", *, if_unused: bool = False, if_empty: bool = False
) -> int:
    """Delete a queue; how many messages went with it."""
    answer: QueueDeleteOk = await given(channel.call(QueueDelete(queue, if_unused, if_empty)))
    return answer.message_count


# -- messages


async def cancel(channel: AnyChannel, consumer_tag: str) -> None:
    await given(channel.call(BasicCancel(consumer_tag)))


async def qos(
    channel: AnyChannel, prefetch_count: int, *, prefetch_size: int = 0, global_: bool = False
) -> None:
    """How many deliveries may be unsettled: per consumer from now on, or for the whole channel."""
    await given(channel.call(BasicQos(prefetch_size, prefetch_count, global_)))


async def recover(channel: AnyChannel, *, requeue: bool = True) -> None:
    """Have everything that is not settled delivered again."""
    await given(channel.call(BasicRecover(requeue)))


# -- the channel itself


async def flow(channel: AnyChannel, active: bool) -> bool:
    """Ask the broker to stop or go on delivering (RabbitMQ refuses to stop)."""
    answer: ChannelFlowOk = await given(channel.call(ChannelFlow(active)))
    return answer.active


async def tx_select(channel: AnyChannel) -> None:
    """From now on publishes and acks count only once they are committed. Needs `confirms=False`."""
    await given(channel.call(TxSelect()))


async def tx_commit(channel: AnyChannel) -> None:
    """Do all of it; TransactionLost when the connection broke in between."""
    await given(channel.call(TxCommit()))


async def tx_rollback(channel: AnyChannel) -> None:
    await given(channel.call(TxRollback()))


@asynccontextmanager
async def transaction(channel: AnyChannel) -> AsyncIterator[None]:
    """Commit at the end of the block, roll back when it raises."""
    if not channel.core.transactional or not channel.core.ready:  # asking waits for the connection
        await tx_select(channel)
    try:
        yield
    except BaseException:
        if not channel.is_closed:
            await tx_rollback(channel)
        raise
    await tx_commit(channel)


async def close(channel: AnyChannel, reply_text: str = "goodbye") -> None:
    channel.closed_by_user = True
    if not channel.is_closed:
        await given(channel.call(ChannelClose(200, reply_text)))
    channel.connection.forget(channel.core)


async def leave(channel: AnyChannel, kind: type[BaseException] | None) -> None:
    """The end of a `with` block, which may be an error's."""
    if channel.is_closed or channel.connection.is_closed:
        return
    if kind is not None and channel.connection.blocked_reason is not None:
        # No answer will come while the broker reads nothing, and the error should not wait for one.
        close_soon(channel)
        return
    await close(channel)


def close_soon(channel: AnyChannel) -> None:
    """As `close`, without waiting for the answer."""
    channel.closed_by_user = True
    channel.connection.tell(channel.core, request_for(channel.core, ChannelClose(200, "goodbye")))


@asynccontextmanager
async def opened(connection: ConnectionHandle[Any], *, prefetch: int | None = None) -> AsyncIterator[Any]:
    """A channel for a moment."""
    channel = await connections.channel(connection, prefetch=prefetch)
    try:
        yield channel
    except BaseException as error:
        await leave(channel, type(error))
        raise
    await leave(channel, None)
