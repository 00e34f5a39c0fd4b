"""A binding: from an exchange to a queue or another exchange, by a key and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.queue.queue import Queue

if TYPE_CHECKING:
    from embermq.broker.exchange.exchange import Exchange


class Binding:
    """Those of one exchange that are equal (`identity`) are one."""

    __slots__ = ("arguments", "destination", "routing_key", "source")

    def __init__(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
    ) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments

    @property
    def identity(self) -> tuple[object, ...]:
        return identity_of(self.destination, self.routing_key, self.arguments)

    @property
    def destination_kind(self) -> str:
        return "queue" if isinstance(self.destination, Queue) else "exchange"

    @property
    def durable(self) -> bool:
        """Survives a restart: both ends do."""
        destination = self.destination
        exclusive = isinstance(destination, Queue) and destination.exclusive
        return bool(self.source.durable and destination.durable and not exclusive)


def identity_of(
    destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
) -> tuple[object, ...]:
    """What tells the bindings of an exchange apart."""
    return (destination, routing_key, frozen(arguments))


def frozen(value: object) -> object:
    """A table as something hashable."""
    if isinstance(value, dict):
        return ("dict", *sorted((name, frozen(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", *(frozen(item) for item in value))
    return (type(value).__name__, value)
