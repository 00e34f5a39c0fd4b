"""Queues and exchanges as objects, for blocking code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from embermq.client.blocking.consumer import Consumer
from embermq.client.calls import queue
from embermq.client.calls.once import blocking
from embermq.client.calls.queue import ConsumeOptions, ExchangeHandle, PublishOptions, QueueHandle
from embermq.client.core.message import Message
from embermq.client.core.publication import Body

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel


class Exchange(ExchangeHandle):
    """An exchange by its name. Made by `Channel.exchange`."""

    channel: Channel

    declare = blocking(queue.declare_exchange)
    bind = blocking(queue.bind_exchange)
    unbind = blocking(queue.unbind_exchange)
    delete = blocking(queue.delete_exchange)

    def publish(
        self,
        body: Body,
        routing_key: str = "",
        *,
        timeout_s: float | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """As `Channel.publish`, to this exchange."""
        self.channel.publish(body, routing_key, self.name, timeout_s=timeout_s, **options)


class Queue(QueueHandle):
    """A queue by its name. Made by `Channel.queue`."""

    channel: Channel

    declare = blocking(queue.declare)
    bind = blocking(queue.bind)
    unbind = blocking(queue.unbind)
    look = blocking(queue.look)
    purge = blocking(queue.purge)
    delete = blocking(queue.delete)

    def publish(
        self, body: Body, *, timeout_s: float | None = None, **options: Unpack[PublishOptions]
    ) -> None:
        """As `Channel.publish`, straight into this queue."""
        self.channel.publish(body, self.name, timeout_s=timeout_s, **options)

    def consume(
        self, callback: Callable[[Message], None] | None = None, **options: Unpack[ConsumeOptions]
    ) -> Consumer:
        """As `Channel.consume`."""
        return self.channel.consume(self.name, callback, **options)

    def get(self, *, no_ack: bool = False) -> Message | None:
        """One message if there is one."""
        return self.channel.get(self.name, no_ack=no_ack)
