"""Exchange types: a class for each, which holds the bindings of an exchange and says where a message goes.

`varies` tells what the answer depends on. What depends on the key alone is asked once per key and kept; then
there is no message, and `match` gets None for it. Types that share messages out among their bindings are in
`hash_types`; the table of all types is in `exchange`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from embermq.broker.exchange.binding import frozen
from embermq.broker.exchange.headers import HeadersPattern, check_mode, look_up_key
from embermq.broker.exchange.topic import TopicPattern, TopicTrie
from embermq.broker.message.header_reader import HeaderReader
from embermq.broker.selector.selector import Selector
from embermq.broker.selector.selector_set import SelectorSet
from embermq.broker.selector.token import SelectorError
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.message.message import Message
    from embermq.broker.queue.queue import Queue

log = logging.getLogger("embermq.broker")

# What the answer depends on: the routing key alone, chance, or each message.
FIXED, BY_CHANCE, BY_MESSAGE = 0, 1, 2

SYSTEM_TYPE = "system"
SELECTOR = "x-selector"
SELECTOR_REASONS = {
    True: "the selector is true",
    False: "the selector is false",
    None: "the selector is neither true nor false: the message does not have what it asks about",
}

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


class SystemMatcher(Matcher):
    """Routing keys are names of services (see `Exchange.destinations`); there are no bindings."""

    def check(self, binding: Binding) -> None:
        raise PreconditionFailed("a system exchange has no bindings: its routing keys are names of services")

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        return ()


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


class ConditionMatcher(Matcher):
    """Base of types whose bindings have conditions on messages: however many destinations are bound by the
    same one, it is one condition and a set."""

    varies = BY_MESSAGE

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bound: dict[object, dict[Queue | Exchange, int]] = {}  # by condition, with numbers of bindings

    def condition_of(self, binding: Binding) -> object:
        """Equal for bindings whose conditions are equal."""
        raise NotImplementedError

    def condition_added(self, condition: object, binding: Binding) -> None:
        """The first binding with this condition has come."""
        raise NotImplementedError

    def condition_removed(self, condition: object, binding: Binding) -> None:
        """The last one has gone."""
        raise NotImplementedError

    def fitting(self, message: Message) -> Iterable[object]:
        """The conditions that hold for the message."""
        raise NotImplementedError

    def add(self, binding: Binding) -> None:
        condition, destination = self.condition_of(binding), binding.destination
        if condition not in self.bound:
            self.condition_added(condition, binding)
        destinations = self.bound.setdefault(condition, {})
        destinations[destination] = destinations.get(destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        condition, destination = self.condition_of(binding), binding.destination
        destinations = self.bound[condition]
        destinations[destination] -= 1
        if not destinations[destination]:
            del destinations[destination]
        if not destinations:
            del self.bound[condition]
            self.condition_removed(condition, binding)

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        if message is None:
            return ()
        conditions = list(self.fitting(message))
        if len(conditions) == 1:
            return self.bound[conditions[0]]  # itself: it may be large
        found: dict[Queue | Exchange, int] = {}
        for condition in conditions:
            found.update(self.bound[condition])
        return found


class HeadersMatcher(ConditionMatcher):
    """A pattern that asks for values is found by a look-up of one of them (all) or each (any)."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.patterns: dict[object, HeadersPattern] = {}
        self.tables: dict[str, dict[object, list[object]]] = {}  # by the name of a header: by its value
        self.others: dict[object, HeadersPattern] = {}
        self.reader: HeaderReader | None = None

    def check(self, binding: Binding) -> None:
        check_mode(binding.arguments)

    def condition_of(self, binding: Binding) -> object:
        return frozen(binding.arguments)

    def condition_added(self, condition: object, binding: Binding) -> None:
        pattern = self.patterns[condition] = HeadersPattern(binding.arguments)
        self.reader = None
        demanded = pattern.demanded()
        for name, value in demanded:
            self.tables.setdefault(name, {}).setdefault(value, []).append(condition)
        if not demanded:
            self.others[condition] = pattern

    def condition_removed(self, condition: object, binding: Binding) -> None:
        pattern = self.patterns.pop(condition)
        self.reader = None
        self.others.pop(condition, None)
        for name, value in pattern.demanded():
            self.tables[name][value].remove(condition)
            if not self.tables[name][value]:
                del self.tables[name][value]
            if not self.tables[name]:
                del self.tables[name]

    def fitting(self, message: Message) -> Iterable[object]:
        reader = self.reader
        if reader is None:
            names = {name for pattern in self.patterns.values() for name in pattern.wanted}
            reader = self.reader = HeaderReader(tuple(names))
        headers = reader.read(message.content, message.header_size)
        found: dict[object, None] = {}
        for name, value in headers.items():
            table = self.tables.get(name)
            if table is not None and (key := look_up_key(value)) is not None:
                for condition in table.get(key, ()):
                    if self.patterns[condition].matches(headers):
                        found[condition] = None
        for condition, pattern in self.others.items():
            if pattern.matches(headers):
                found[condition] = None
        return found

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        headers = message.properties.headers or {}
        return ((binding, *HeadersPattern(binding.arguments).explain(headers)) for binding in bindings)


class SelectorMatcher(ConditionMatcher):
    """The argument `x-selector` of a binding is its condition."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.selectors = SelectorSet()

    def check(self, binding: Binding) -> None:
        text = binding.arguments.get(SELECTOR)
        if not isinstance(text, str):
            raise PreconditionFailed(
                f"a binding to an {SELECTOR} exchange needs the argument {SELECTOR}, a text"
            )
        Selector(text)

    def condition_of(self, binding: Binding) -> object:
        return binding.arguments[SELECTOR]

    def condition_added(self, condition: object, binding: Binding) -> None:
        self.selectors.add(selector_or_never(str(condition)), condition)

    def condition_removed(self, condition: object, binding: Binding) -> None:
        self.selectors.remove(condition)

    def fitting(self, message: Message) -> Iterable[object]:
        return self.selectors.fitting(message)

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        for binding in bindings:
            selector = selector_or_never(str(binding.arguments[SELECTOR]))
            answer = selector.condition.value(selector.fields.of_message(message, False))
            yield binding, answer is True, SELECTOR_REASONS[answer if isinstance(answer, bool) else None]


def selector_or_never(text: str) -> Selector:
    """One that another version of EmberMQ let in, and that is not understood here, is never true."""
    try:
        return Selector(text)
    except SelectorError as error:
        log.error("a binding to an %s exchange matches nothing: %s: %.200r", SELECTOR, error.detail, text)
        return Selector("1 = 2")
