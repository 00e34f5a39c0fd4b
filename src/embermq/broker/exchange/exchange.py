"""Exchanges, and the routes that their bindings add up to.

A `Route` is the answer for one exchange and routing key: the queues, worked out once and kept. It is valid
while `route.version == route.exchange.version`; every change of bindings raises the version of the exchange
and of all exchanges that lead to it, also those that ask it about chained bindings. Where the answer also
depends on chance or on each message, as with a headers exchange on the way, it is worked out anew (`varies`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from embermq.broker.deduplication.deduplication import Window, serve_exchange, stop_serving, window_from
from embermq.broker.definitions import Body, packed
from embermq.broker.exchange.hash_types import (
    ConsistentHashMatcher,
    LocalRandomMatcher,
    ModulusHashMatcher,
    RandomMatcher,
)
from embermq.broker.exchange.plugin_type import TypeState
from embermq.broker.exchange.types import (
    BY_CHANCE,
    FIXED,
    SYSTEM_TYPE,
    DirectMatcher,
    FanoutMatcher,
    HeadersMatcher,
    Matcher,
    SelectorMatcher,
    SystemMatcher,
    TopicMatcher,
)
from embermq.broker.queue.queue import KEEPS_ALL, Queue
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.firehose import Session
    from embermq.broker.message.message import Message
    from embermq.broker.vhost import VirtualHost

Destinations = Collection["Queue | Exchange"]  # a dictionary: to be asked for one quickly

ROUTES_MAX = 16384  # kept answers per exchange
DELAYED_TYPE = "x-delayed-message"  # routes as the type in the argument x-delayed-type

MATCHERS: dict[str, Callable[[Mapping[str, object]], Matcher]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
    SYSTEM_TYPE: SystemMatcher,
    "x-selector": SelectorMatcher,
    "x-consistent-hash": ConsistentHashMatcher,
    "x-modulus-hash": ModulusHashMatcher,
    "x-random": RandomMatcher,
    "x-local-random": LocalRandomMatcher,
}


PLUGIN_TYPES: dict[str, TypeState] = {}  # those of plug-ins among them, and those that are missed


def matcher_of(type: str, arguments: Mapping[str, object]) -> Matcher:
    """One of a type that a plug-in had keeps its bindings until the plug-in is there again."""
    make = MATCHERS.get(type)
    if make is None:
        make = PLUGIN_TYPES.setdefault(type, TypeState(type, None)).make
    return make(arguments)


class Exchange:
    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "chain",
        "deduplication",
        "deleted",
        "durable",
        "effective",
        "internal",
        "matcher",
        "name",
        "received_count",
        "routed_count",
        "routes",
        "routing_type",
        "sources",
        "type",
        "unroutable_count",
        "version",
        "vhost",
        "via_here",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        type: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments or {}
        self.effective = self.arguments  # what holds: these, and what policies add
        self.routing_type = str(self.arguments.get("x-delayed-type")) if type == DELAYED_TYPE else type
        self.matcher: Matcher = self.new_matcher()
        self.chain: Link | None = None  # while there are chained bindings that begin here
        self.via_here: dict[Binding, None] = {}  # those of other exchanges
        self.bindings: dict[tuple[object, ...], Binding] = {}
        self.routes: dict[str, Route] = {}
        self.sources: dict[Exchange, int] = {}  # exchanges bound to lead here, with the number of bindings
        self.version = 0
        self.deleted = False
        # Beside those that the kept routes have counted: see `counts`.
        self.received_count = 0
        self.routed_count = 0
        self.unroutable_count = 0
        self.alternate: str | None = None
        self.deduplication: Window | None = None
        self.apply_effective()

    def new_matcher(self) -> Matcher:
        return matcher_of(self.routing_type, self.effective)

    def apply_effective(self) -> None:
        """Take over what holds now."""
        alternate = self.effective.get("alternate-exchange")
        if self.alternate is not None:
            self.vhost.alternates[self.alternate].pop(self, None)
        self.alternate = alternate if isinstance(alternate, str) else None
        if self.alternate is not None:
            self.vhost.alternates.setdefault(self.alternate, {})[self] = None
        before, self.deduplication = self.deduplication, window_from(self.effective)
        if before != self.deduplication:
            stop_serving(self)

    def effective_changed(self, effective: dict[str, object]) -> None:
        """Policies say something else than before."""
        self.effective = effective
        self.apply_effective()
        self.changed()

    def add_binding(self, binding: Binding) -> bool:
        """True when it is new."""
        if binding.identity in self.bindings:
            return False
        self.bindings[binding.identity] = binding
        if binding.chained:
            first = binding.path[0]
            first.chain = first.chain or Link(first, first.matcher)
            first.chain.add(binding, 1)
        else:
            self.matcher.add(binding)
        for exchange in binding.path[:-1]:
            exchange.via_here[binding] = None
        for exchange, source in leading(binding):
            exchange.sources[source] = exchange.sources.get(source, 0) + 1
        self.changed()
        return True

    def remove_binding(self, binding: Binding) -> bool:
        """True when there was such a one."""
        found = self.bindings.pop(binding.identity, None)
        if found is None:
            return False
        self.changed()  # while it is known what leads here
        first = found.path[0]
        if found.chained and first.chain is not None:
            first.chain.remove(found, 1)
            if not first.chain.further:
                first.chain = None
        else:
            self.matcher.remove(found)
        for exchange in found.path[:-1]:
            exchange.via_here.pop(found, None)
        for exchange, source in leading(found):
            exchange.sources[source] -= 1
            if not exchange.sources[source]:
                del exchange.sources[source]
        return True

    def changed(self) -> None:
        """Bindings are not what they were: forget the routes here and wherever a message may come from."""
        stale: list[Exchange] = [self]
        known = {self}
        for exchange in stale:  # grows while we walk: everything upstream, each once
            exchange.version += 1
            exchange.forget_routes()
            for source in [*exchange.sources, *self.vhost.alternates.get(exchange.name, ())]:
                if source not in known:
                    known.add(source)
                    stale.append(source)

    def route(self, names: bytes, routing_key: str) -> Route:
        """The kept answer for a key, or a new one."""
        route = self.routes.get(routing_key)
        if route is None:
            if len(self.routes) >= ROUTES_MAX:
                self.version += 1  # channels resolve again: none keeps a forgotten route
                self.forget_routes()
            queues, varies = self.resolve(routing_key, None)
            if varies == FIXED and self.vhost.trace is not None:
                varies = BY_CHANCE  # resolved for each message, so that the firehose sees it
            route = self.routes[routing_key] = Route(names, self, () if varies else queues, varies)
        return route

    def forget_routes(self) -> None:
        self.received_count, self.routed_count, self.unroutable_count = self.counts()
        self.routes.clear()
        if self.chain is not None:
            self.chain.forget()

    def definition(self) -> Body:
        return {
            "type": self.type,
            "auto_delete": self.auto_delete,
            "internal": self.internal,
            **packed(self.arguments),
        }

    def counts(self) -> tuple[int, int, int]:
        """Messages published here, copies of them put into queues, messages that no queue was for."""
        received, routed, unroutable = self.received_count, self.routed_count, self.unroutable_count
        for route in self.routes.values():
            received += route.count
            routed += route.count * len(route.queues)
            unroutable += 0 if route.queues else route.count
        return received, routed, unroutable

    def count_one(self, queue_count: int) -> None:
        """A message that no kept route stands for."""
        self.received_count += 1
        self.routed_count += queue_count
        self.unroutable_count += queue_count == 0

    def resolve(
        self, routing_key: str, message: Message | None, more_keys: Iterable[str] = ()
    ) -> tuple[tuple[Queue, ...], int]:
        """Follow the bindings from here: the queues, each once, and what else than the key decides.

        The further keys (of CC and BCC) count at every exchange on the way, as the first one does.
        """
        keys = [routing_key, *more_keys]
        queues: dict[Queue, None] = {}
        varies = FIXED
        exchanges: list[Exchange] = [self]
        known = {self}
        for exchange in exchanges:  # grows while we walk; cycles end because each comes once
            varies = max(varies, exchange.matcher.varies)
            if exchange.chain is not None:
                varies = max(varies, exchange.chain.varies(keys, message))
            for destination in exchange.destinations(keys, message):
                if isinstance(destination, Queue):
                    queues[destination] = None
                elif destination not in known:
                    known.add(destination)
                    exchanges.append(destination)
        if self.deduplication is not None:
            for queue in queues:
                serve_exchange(queue, self)
        return tuple(queues), varies

    def resolve_or_none(
        self, routing_key: str, message: Message, more_keys: Iterable[str] = ()
    ) -> tuple[Queue, ...]:
        """The queues, for a message that no client publishes: one that a plug-in refuses has none."""
        try:
            return self.resolve(routing_key, message, more_keys)[0]
        except PreconditionFailed:
            return ()

    def destinations(self, keys: list[str], message: Message | None) -> list[Queue | Exchange]:
        """Where a message goes from here; when nowhere by any of its keys, to the alternate exchange."""
        if not self.name:  # the default exchange: every queue is bound by its name
            queues = self.vhost.queues
            return [queues[key] for key in keys if key in queues]
        if self.type == SYSTEM_TYPE:
            return [service for key in keys if (service := self.vhost.service(key)) is not None]
        if self.chain is None:
            found = list(self.matcher.match(keys[0], message))
            for key in keys[1:]:
                found += self.matcher.match(key, message)
        else:
            found = list(self.chain.match(keys, message))
        if self.vhost.binding_removal.things:
            found = [destination for destination in found if not destination.deleted]
        if not found and self.alternate is not None:
            alternate = self.vhost.exchanges.get(self.alternate)
            return [] if alternate is None else [alternate]
        return found

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r} {self.type}>"


class Link:
    """A link of chained bindings: those that end at the same exchange and come there via the same others.

    The first link is an exchange's own bindings. A destination that is bound further along as well gets what
    matches here only if it comes through there, too.
    """

    __slots__ = ("bindings", "exchange", "further", "kept", "matcher", "narrowed")

    def __init__(self, exchange: Exchange, matcher: Matcher) -> None:
        self.exchange = exchange
        self.matcher = matcher
        self.bindings: dict[Binding, None] = {}  # but for those of the first link
        self.further: dict[Exchange, Link] = {}
        self.narrowed: dict[Queue | Exchange, int] = {}  # bound further along, with the number of bindings
        self.kept: dict[str, tuple[Destinations, Destinations]] = {}  # by key, where that alone decides

    def add(self, binding: Binding, at: int) -> None:
        """`at` is the place in the binding's path behind this link."""
        if at == len(binding.path):
            self.bindings[binding] = None
            self.matcher.add(binding)
            return
        self.narrowed[binding.destination] = self.narrowed.get(binding.destination, 0) + 1
        exchange = binding.path[at]
        if exchange not in self.further:
            self.further[exchange] = Link(exchange, exchange.new_matcher())
        self.further[exchange].add(binding, at + 1)

    def remove(self, binding: Binding, at: int) -> None:
        if at == len(binding.path):
            del self.bindings[binding]
            self.matcher.remove(binding)
            return
        self.narrowed[binding.destination] -= 1
        if not self.narrowed[binding.destination]:
            del self.narrowed[binding.destination]
        link = self.further[binding.path[at]]
        link.remove(binding, at + 1)
        if not link.bindings and not link.further:
            del self.further[binding.path[at]]

    def match(
        self, keys: list[str], message: Message | None, among: Destinations | None = None
    ) -> Destinations:
        """Where a message comes through, out of `among`."""
        free, narrowed = self.split(keys, message)
        if among is not None:
            free, narrowed = both(free, among), both(narrowed, among)
        if not narrowed:
            return free
        found = dict.fromkeys(free)
        for link in self.further.values():
            if not link.exchange.deleted:
                found.update(dict.fromkeys(link.match(keys, message, narrowed)))
        return found

    def split(self, keys: list[str], message: Message | None) -> tuple[Destinations, Destinations]:
        """What matches here: that which is bound nowhere else, and that which is bound further along."""
        keeps = self.matcher.varies == FIXED and len(keys) == 1
        answer = self.kept.get(keys[0]) if keeps else None
        if answer is None:
            found = self.matcher.match(keys[0], message)
            if len(keys) > 1 or not isinstance(found, dict):
                found = dict.fromkeys(found)
                for key in keys[1:]:
                    found.update(dict.fromkeys(self.matcher.match(key, message)))
            narrowed = both(found, self.narrowed)
            answer = dict.fromkeys(d for d in found if d not in narrowed) if narrowed else found, narrowed
            if keeps:
                if len(self.kept) >= ROUTES_MAX:
                    self.kept.clear()
                self.kept[keys[0]] = answer
        return answer

    def varies(self, keys: list[str], message: Message | None) -> int:
        """What the answer for these keys depends on."""
        if self.matcher.varies != FIXED or not self.split(keys, message)[1]:
            return int(self.matcher.varies)
        return max(link.varies_at_most() for link in self.further.values())

    def varies_at_most(self) -> int:
        return max(
            int(self.matcher.varies), *(link.varies_at_most() for link in self.further.values()), FIXED
        )

    def forget(self) -> None:
        self.kept.clear()
        for link in self.further.values():
            link.forget()


def both(some: Destinations, others: Destinations) -> Destinations:
    """What is in both, at the cost of the smaller one."""
    if len(some) > len(others):
        some, others = others, some
    return {destination: None for destination in some if destination in others}


def leading(binding: Binding) -> list[tuple[Exchange, Exchange]]:
    """Pairs of exchanges: where the first one changes, the second one's routes do."""
    pairs = [(exchange, binding.path[0]) for exchange in binding.path[1:]]
    if isinstance(binding.destination, Exchange):
        pairs += [(binding.destination, exchange) for exchange in binding.path]
    return pairs


class Route:
    __slots__ = ("count", "exchange", "keys", "names", "queues", "to_stream", "varies", "version")

    def __init__(
        self,
        names: bytes,
        exchange: Exchange,
        queues: tuple[Queue, ...],
        varies: int = FIXED,
        keys: tuple[str, ...] = (),
    ) -> None:
        self.keys = keys  # of CC and BCC; such a route is for one message
        self.names = names
        self.exchange = exchange
        self.version = exchange.version
        self.queues = queues
        self.varies = varies
        self.to_stream = len(queues) == 1 and queues[0].keeps == KEEPS_ALL  # and to nothing else
        self.count = 0  # messages that went this way

    def anew(self, message: Message, publisher: Session | None = None) -> tuple[Queue, ...]:
        """Where one message goes: for routes that depend on each, and those that are no longer valid."""
        queues, _ = self.exchange.resolve(message.routing_key, message, self.keys)
        self.exchange.count_one(len(queues))
        if self.exchange.vhost.trace is not None:
            self.exchange.vhost.trace.published(message, queues, publisher)
        return queues
