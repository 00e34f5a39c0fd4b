"""Exchange types: which bindings of an exchange match a message.

Those that share messages out among their bindings are in `hash_types`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from embermq.broker.exchange.hash_types import (
    BY_PROPERTIES,
    FIXED,
    ConsistentHashMatcher,
    ModulusHashMatcher,
    RandomMatcher,
)
from embermq.broker.exchange.topic import TopicTrie

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.queue.queue import Queue
    from embermq.wire.properties import Properties


class Matcher(Protocol):
    @property
    def varies(self) -> int: ...

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, routing_key: str, properties: Properties | None) -> Iterable[Queue | Exchange]: ...


class DirectMatcher:
    varies = FIXED

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.by_key: dict[str, list[Binding]] = {}

    def add(self, binding: Binding) -> None:
        self.by_key.setdefault(binding.routing_key, []).append(binding)

    def remove(self, binding: Binding) -> None:
        bindings = self.by_key[binding.routing_key]
        bindings.remove(binding)
        if not bindings:
            del self.by_key[binding.routing_key]

    def match(self, routing_key: str, properties: Properties | None) -> Iterable[Queue | Exchange]:
        return [binding.destination for binding in self.by_key.get(routing_key, ())]


class FanoutMatcher:
    varies = FIXED

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]

    def match(self, routing_key: str, properties: Properties | None) -> Iterable[Queue | Exchange]:
        return [binding.destination for binding in self.bindings]


class TopicMatcher:
    varies = FIXED

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.trie: TopicTrie[Queue | Exchange] = TopicTrie()

    def add(self, binding: Binding) -> None:
        self.trie.add(binding.routing_key, binding.destination)

    def remove(self, binding: Binding) -> None:
        self.trie.remove(binding.routing_key, binding.destination)

    def match(self, routing_key: str, properties: Properties | None) -> Iterable[Queue | Exchange]:
        return self.trie.match(routing_key)


class HeadersMatcher(FanoutMatcher):
    varies = BY_PROPERTIES

    def match(self, routing_key: str, properties: Properties | None) -> Iterable[Queue | Exchange]:
        headers = (properties.headers if properties is not None else None) or {}
        return [b.destination for b in self.bindings if b.pattern is not None and b.pattern.matches(headers)]


MATCHERS: dict[str, Callable[[Mapping[str, object]], Matcher]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
    "x-consistent-hash": ConsistentHashMatcher,
    "x-modulus-hash": ModulusHashMatcher,
    "x-random": RandomMatcher,
    "x-local-random": RandomMatcher,
}
