"""Queues and exchanges as objects, beside the methods of the channel."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar

from embermq.client.calls import channel as calls
from embermq.client.calls.consumer import OnError
from embermq.client.core.requests import Arguments
from embermq.client.core.topology import QueueInfo
from embermq.wire.properties import Properties


class PublishOptions(TypedDict, total=False):
    """The options of `publish`, for type checkers."""

    properties: Properties | bytes | None
    mandatory: bool


class ConsumeOptions(TypedDict, total=False):
    """The options of `consume`, for type checkers."""

    concurrency: int
    prefetch: int | None
    no_ack: bool
    exclusive: bool
    no_local: bool
    consumer_tag: str
    selector: str | None
    arguments: Arguments
    timeout_s: float | None
    on_error: OnError


class ExchangeHandle:
    """An exchange by its name."""

    def __init__(self, channel: Any, name: str) -> None:
        self.channel = channel
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}'>"


class QueueHandle:
    """A queue by its name, which for one that the broker named is today's: a reconnection renames it."""

    def __init__(self, channel: Any, name: str = "") -> None:
        self.channel = channel
        self.info = QueueInfo(name, 0, 0)  # as of the last `declare` or `look`

    @property
    def name(self) -> str:
        return self.info.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}'>"


Q = TypeVar("Q", bound=QueueHandle)
E = TypeVar("E", bound=ExchangeHandle)


def name_of(exchange: str | ExchangeHandle) -> str:
    return exchange if isinstance(exchange, str) else exchange.name


# -- exchanges


async def declare_exchange(
    exchange: E,
    type: str = "direct",
    *,
    passive: bool = False,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments = None,
) -> E:
    """Make it, or with `passive` only look whether it is there."""
    await calls.exchange_declare(
        exchange.channel,
        exchange.name,
        type,
        passive=passive,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
    )
    return exchange


async def bind_exchange(
    exchange: ExchangeHandle,
    source: str | ExchangeHandle,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    """Have what reaches `source` with this key reach this one too."""
    await calls.exchange_bind(
        exchange.channel, exchange.name, name_of(source), routing_key, arguments=arguments
    )


async def unbind_exchange(
    exchange: ExchangeHandle,
    source: str | ExchangeHandle,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    await calls.exchange_unbind(
        exchange.channel, exchange.name, name_of(source), routing_key, arguments=arguments
    )


async def delete_exchange(exchange: ExchangeHandle, *, if_unused: bool = False) -> None:
    await calls.exchange_delete(exchange.channel, exchange.name, if_unused=if_unused)


# -- queues


async def declare(
    queue: Q,
    *,
    passive: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Arguments = None,
) -> Q:
    """Make it, or with `passive` only look whether it is there."""
    queue.info = await calls.queue_declare(
        queue.channel,
        queue.name,
        passive=passive,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=arguments,
    )
    return queue


async def bind(
    queue: QueueHandle,
    exchange: str | ExchangeHandle,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    """Have what reaches the exchange with this key reach this queue."""
    await calls.queue_bind(queue.channel, queue.name, name_of(exchange), routing_key, arguments=arguments)


async def unbind(
    queue: QueueHandle,
    exchange: str | ExchangeHandle,
    routing_key: str = "",
    *,
    arguments: Arguments = None,
) -> None:
    await calls.queue_unbind(queue.channel, queue.name, name_of(exchange), routing_key, arguments=arguments)


async def look(queue: QueueHandle) -> QueueInfo:
    """How many messages and consumers it has; NotFound when it is not there."""
    return await calls.queue_declare(queue.channel, queue.name, passive=True)


async def purge(queue: QueueHandle) -> int:
    """Throw away what waits; how many messages that were."""
    return await calls.queue_purge(queue.channel, queue.name)


async def delete(queue: QueueHandle, *, if_unused: bool = False, if_empty: bool = False) -> int:
    """Delete it; how many messages went with it."""
    return await calls.queue_delete(queue.channel, queue.name, if_unused=if_unused, if_empty=if_empty)
