"""A binding: from an exchange to a queue or another exchange, by a key and arguments.

A chained binding goes via other exchanges (argument `x-via`): a message that comes to the first of these
reaches the destination where the bindings at every exchange of the chain match. `path` is the chain, with the
binding's own exchange at its end. The bindings of a destination at equal paths are alternatives, and so are
the paths that lead on from the same exchange.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from embermq.broker.definitions import Body, packed
from embermq.broker.queue.arguments import type_name
from embermq.broker.queue.queue import Queue
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.exchange.exchange import Exchange

NAMES = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


Path = tuple[Any, ...]  # of exchanges, or of their names

VIA = "x-via"
VIA_COUNT_MAX = 8


class Binding:
    """Those of one exchange that are equal (`identity`) are one."""

    __slots__ = ("arguments", "destination", "path", "routing_key", "source")

    def __init__(
        self,
        source: Exchange,
        destination: Queue | Exchange,
        routing_key: str,
        arguments: dict[str, object],
        via: tuple[Exchange, ...] = (),
    ) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        self.path: tuple[Exchange, ...] = (*via, source)

    @property
    def identity(self) -> tuple[object, ...]:
        return identity_of(self.destination, self.routing_key, self.arguments)

    @property
    def destination_kind(self) -> str:
        return "queue" if isinstance(self.destination, Queue) else "exchange"

    @property
    def durable(self) -> bool:
        """Survives a restart: both ends do, and all that is between them."""
        return self.destination_stays and all(exchange.durable for exchange in self.path)

    @property
    def destination_stays(self) -> bool:
        destination = self.destination
        exclusive = isinstance(destination, Queue) and destination.exclusive
        return bool(destination.durable and not exclusive)

    @property
    def chained(self) -> bool:
        return len(self.path) > 1

    def check_chain(self) -> None:
        """A rule that lost one of its conditions in a restart would let everything through."""
        first = self.path[0]
        transient = next((exchange for exchange in self.path if not exchange.durable), None)
        if transient is not None and first.durable and self.destination_stays:
            raise PreconditionFailed(
                f"exchange '{transient.name}' is not durable, as '{first.name}' at the head of the chain is"
            )

    def definition(self) -> Body:
        return {
            "source": self.source.name,
            "kind": self.destination_kind,
            "destination": self.destination.name,
            "routing_key": self.routing_key,
            **packed(self.arguments),
        }

    def definition_name(self) -> str:
        """What makes a binding the one it is, as text."""
        return NAMES.encode(self.definition())


def via_names(arguments: dict[str, object]) -> list[str]:
    """The names of the exchanges that a chained binding goes via."""
    if VIA not in arguments:
        return []
    value = arguments[VIA]
    names: list[str] = []
    for name in value if isinstance(value, list) else [value]:
        if not isinstance(name, str):
            raise PreconditionFailed(f"invalid arg '{VIA}': {{unacceptable_type,{type_name(name)}}}")
        names.append(name)
    if not 1 <= len(names) <= VIA_COUNT_MAX:
        raise PreconditionFailed(f"invalid arg '{VIA}': 1 to {VIA_COUNT_MAX} exchanges, not {len(names)}")
    return names


def whole_paths(paths: set[Path], gone: Callable[[Path], bool]) -> set[Path]:
    """What is left of the paths of one destination when some are gone, and with them every rule that they
    were a part of: a path that led on, and no longer does, goes as well."""
    led_on = {path[:size] for path in paths for size in range(1, len(path))}
    left: set[Path] = set()
    leads_on: set[Path] = set()
    for path in sorted(paths, key=len, reverse=True):
        if not gone(path) and (path not in led_on or path in leads_on):
            left.add(path)
            leads_on.update(path[:size] for size in range(1, len(path)))
    return left


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
