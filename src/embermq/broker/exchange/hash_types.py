"""Hash and random exchange types: each message goes to one of the bindings, as with RabbitMQ's plugins.

x-consistent-hash   by hash of the key (or a header, or a property); binding keys are weights
x-modulus-hash      by hash of the key, modulo the number of bindings
x-random            by chance, whatever the keys
x-local-random      the same, for queues only; binding keys must be empty
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from random import random
from typing import TYPE_CHECKING

from embermq.broker.exchange.rendezvous_hash import Rendezvous, number_of
from embermq.broker.exchange.types import BY_CHANCE, BY_MESSAGE, FIXED, Explained, Matcher
from embermq.broker.message.header_reader import HeaderReader
from embermq.broker.queue.arguments import type_name
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.message.message import Message
    from embermq.broker.queue.queue import Queue

HASHED_PROPERTIES = ("correlation_id", "message_id", "timestamp")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class ConsistentHashMatcher(Matcher):
    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.header = arguments.get("hash-header")
        self.property = arguments.get("hash-property")
        self.reader = HeaderReader((str(self.header),))
        self.varies = BY_MESSAGE if self.header or self.property else FIXED
        self.bindings: dict[Binding, float] = {}  # with their weights
        self.destinations: list[Queue | Exchange] = []
        self.ring: Rendezvous | None = None

    def check(self, binding: Binding) -> None:
        """In RabbitMQ's words."""
        key = binding.routing_key
        if not WHOLE_NUMBER.fullmatch(key):
            shown = f'<<"{key}">>' if key else "<<>>"
            raise PreconditionFailed(f"The binding key must be an integer: {shown}")
        if int(key) < 1:
            raise PreconditionFailed("The binding key must be greater than 0")

    def add(self, binding: Binding) -> None:
        self.bindings[binding] = float(int(binding.routing_key))
        self.ring = None

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]
        self.ring = None

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        if not self.bindings:
            return []
        ring = self.ring or self.made_ring()
        return [self.destinations[ring.choose(number_of(self.hashed(routing_key, message)))]]

    def made_ring(self) -> Rendezvous:
        self.destinations = [binding.destination for binding in self.bindings]
        self.ring = Rendezvous(
            [(number_of(binding_end(b)), weight) for b, weight in self.bindings.items()],
        )
        return self.ring

    def hashed(self, routing_key: str, message: Message | None) -> bytes:
        """What of a message decides; messages without it belong together."""
        if self.varies == FIXED:
            return routing_key.encode("utf-8", "surrogateescape")
        value: object = None
        if message is not None and self.header:
            value = self.reader.read(message.content, message.header_size).get(str(self.header))
        elif message is not None:
            value = getattr(message.properties, str(self.property))
        return str(value).encode("utf-8", "surrogateescape") if value is not None else b""


class ModulusHashMatcher(Matcher):
    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bindings: list[Binding] = []

    def add(self, binding: Binding) -> None:
        self.bindings.append(binding)
        # In an order that a restart does not change.
        self.bindings.sort(key=lambda binding: (binding_end(binding), binding.routing_key))

    def remove(self, binding: Binding) -> None:
        self.bindings.remove(binding)

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        if not self.bindings:
            return []
        number = number_of(routing_key.encode("utf-8", "surrogateescape"))
        return [self.bindings[number % len(self.bindings)].destination]


class RandomMatcher(Matcher):
    by_chance = True
    varies = BY_CHANCE

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bindings: list[Binding] = []

    def add(self, binding: Binding) -> None:
        self.bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        self.bindings.remove(binding)

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        if not self.bindings:
            return []
        return [self.bindings[int(random() * len(self.bindings))].destination]

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        reason = f"one of {len(self.bindings)} by chance"
        return ((binding, True, reason) for binding in bindings)


class LocalRandomMatcher(RandomMatcher):
    def check(self, binding: Binding) -> None:
        """In RabbitMQ's words."""
        if binding.routing_key:
            raise PreconditionFailed(f"Non empty binding '{binding.routing_key}' key not permitted")
        if binding.destination_kind != "queue":
            raise PreconditionFailed("Destination not found")
        queue_type = binding.destination.effective.get("x-queue-type", "classic")
        if queue_type != "classic":
            raise PreconditionFailed(f"Queue type rabbit_{queue_type}_queue not valid for this exchange type")


def binding_end(binding: Binding) -> bytes:
    name = binding.destination.name.encode("utf-8", "surrogateescape")
    return binding.destination_kind.encode() + b":" + name


def check_hash_arguments(what: str, arguments: Mapping[str, object]) -> None:
    """Those of a consistent hash exchange."""
    for name in ("hash-header", "hash-property"):
        if not isinstance(arguments.get(name, ""), str):
            found = type_name(arguments[name])
            raise PreconditionFailed(f"invalid type '{found}' for arg '{name}' in {what}")
    if "hash-header" in arguments and "hash-property" in arguments:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    hashed = arguments.get("hash-property")
    if hashed is not None and hashed not in HASHED_PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {hashed}")
