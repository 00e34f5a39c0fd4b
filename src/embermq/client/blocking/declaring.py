"""Exchanges, queues and bindings: the part of a blocking channel that shapes the broker's routing."""

from __future__ import annotations

from typing import Any

from embermq.client.core.requests import Arguments
from embermq.client.core.topology import QueueInfo
from embermq.wire.methods import (
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
)


class Declaring:
    def call(self, method: Method, timeout_s: float | None = None) -> Any:
        raise NotImplementedError

    def exchange_declare(
        self,
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
        self.call(
            ExchangeDeclare(
                exchange, type, passive, durable, auto_delete, internal, False, dict(arguments or {})
            )
        )

    def exchange_delete(self, exchange: str, *, if_unused: bool = False) -> None:
        self.call(ExchangeDelete(exchange, if_unused))

    def exchange_bind(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Arguments = None
    ) -> None:
        """Have what reaches `source` with this key reach `destination` too."""
        self.call(ExchangeBind(destination, source, routing_key, False, dict(arguments or {})))

    def exchange_unbind(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Arguments = None
    ) -> None:
        self.call(ExchangeUnbind(destination, source, routing_key, False, dict(arguments or {})))

    def queue_declare(
        self,
        queue: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments = None,
    ) -> QueueInfo:
        """Make a queue, or with `passive` only look. Without a name the broker chooses one (see `.name`)."""
        info: QueueInfo = self.call(
            QueueDeclare(queue, passive, durable, exclusive, auto_delete, False, dict(arguments or {}))
        )
        return info

    def queue_bind(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments = None
    ) -> None:
        self.call(QueueBind(queue, exchange, routing_key, False, dict(arguments or {})))

    def queue_unbind(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments = None
    ) -> None:
        self.call(QueueUnbind(queue, exchange, routing_key, dict(arguments or {})))

    def queue_purge(self, queue: str = "") -> int:
        """Throw away what waits; how many messages that were."""
        answer: QueuePurgeOk = self.call(QueuePurge(queue))
        return answer.message_count

    def queue_delete(self, queue: str = "", *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; how many messages went with it."""
        answer: QueueDeleteOk = self.call(QueueDelete(queue, if_unused, if_empty))
        return answer.message_count
