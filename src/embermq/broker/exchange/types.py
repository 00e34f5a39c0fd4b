"""Exchange types: a class for each, which holds the bindings of an exchange and says where a message goes.

`varies` tells what the answer depends on. What depends on the key alone is asked once per key and kept; then
there is no message, and `match` gets None for it. Types that share messages out among their bindings are in
`hash_types`; the table of all types is in `exchange`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from embermq.broker.exchange.binding import frozen
from embermq.broker.exchange.headers import HeadersPattern, check_mode
from embermq.broker.exchange.topic import TopicPattern, TopicTrie

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.message.message import Message
    from embermq.broker.queue.queue import Queue

# What the answer depends on: the routing key alone, chance, or each message.
FIXED, BY_CHANCE, BY_MESSAGE = 0, 1, 2

Explained = tuple["Binding", bool, str]  # did it match, and why


class Matcher:
    varies = FIXED
    by_chance = False  # among its bindings it draws one

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """`arguments` are those of the exchange."""

    def check(self, binding: Binding) -> None:
        """Refuse what a binding of this type cannot be."""

    def add(self, binding: Binding) -> None:
        raise NotImplementedError

    def remove(self, binding: Binding) -> None:
        raise NotImplementedError

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        """Where a message goes by this key."""
        raise NotImplementedError

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        """For each of the bindings: does the message go there by one of its keys, and why."""
        chosen = {destination for key in keys for destination in self.match(key, message)}
        for binding in bindings:
            if binding.destination in chosen:
                yield binding, True, "the exchange chose this destination"
            else:
                yield binding, False, "the exchange chose another destination"


def explain_each(
    bindings: Iterable[Binding], keys: list[str], condition: Callable[[Binding, str], tuple[bool, str]]
) -> Iterator[Explained]:
    """For types that decide about each binding by itself: any of the keys will do."""
    for binding in bindings:
        answers = (condition(binding, key) for key in keys)
        first = next(answers)
        matched, reason = first if first[0] else next((answer for answer in answers if answer[0]), first)
        yield binding, matched, reason


class DirectMatcher(Matcher):
    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.by_key: dict[str, list[Binding]] = {}

    def add(self, binding: Binding) -> None:
        self.by_key.setdefault(binding.routing_key, []).append(binding)

    def remove(self, binding: Binding) -> None:
        bindings = self.by_key[binding.routing_key]
        bindings.remove(binding)
        if not bindings:
            del self.by_key[binding.routing_key]

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        return [binding.destination for binding in self.by_key.get(routing_key, ())]

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        return explain_each(bindings, keys, explain_direct)


def explain_direct(binding: Binding, key: str) -> tuple[bool, str]:
    if binding.routing_key == key:
        return True, f"the routing key is '{key}'"
    return False, f"the routing key is '{key}', not '{binding.routing_key}'"


class FanoutMatcher(Matcher):
    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        return [binding.destination for binding in self.bindings]

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        return ((binding, True, "a fanout exchange sends to all its bindings") for binding in bindings)


class TopicMatcher(Matcher):
    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.trie: TopicTrie[Queue | Exchange] = TopicTrie()

    def add(self, binding: Binding) -> None:
        self.trie.add(binding.routing_key, binding.destination)

    def remove(self, binding: Binding) -> None:
        self.trie.remove(binding.routing_key, binding.destination)

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        return self.trie.match(routing_key)

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        return explain_each(bindings, keys, explain_topic)


def explain_topic(binding: Binding, key: str) -> tuple[bool, str]:
    matched = TopicPattern(binding.routing_key).matches(key)
    return matched, f"'{key}' {'matches' if matched else 'does not match'} '{binding.routing_key}'"


class HeadersMatcher(Matcher):
    """Bindings with equal arguments are one pattern and its destinations."""

    varies = BY_MESSAGE

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.patterns: dict[object, HeadersPattern] = {}
        self.destinations: dict[HeadersPattern, dict[Queue | Exchange, int]] = {}

    def check(self, binding: Binding) -> None:
        check_mode(binding.arguments)

    def add(self, binding: Binding) -> None:
        pattern = self.patterns.setdefault(frozen(binding.arguments), HeadersPattern(binding.arguments))
        bound = self.destinations.setdefault(pattern, {})
        bound[binding.destination] = bound.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        pattern = self.patterns[frozen(binding.arguments)]
        bound = self.destinations[pattern]
        bound[binding.destination] -= 1
        if not bound[binding.destination]:
            del bound[binding.destination]
        if not bound:
            del self.destinations[pattern]
            del self.patterns[frozen(binding.arguments)]

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        headers = (message.properties.headers if message is not None else None) or {}
        found: dict[Queue | Exchange, int] = {}
        for pattern, bound in self.destinations.items():
            if pattern.matches(headers):
                found.update(bound)
        return found

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        headers = message.properties.headers or {}
        return ((binding, *HeadersPattern(binding.arguments).explain(headers)) for binding in bindings)
