"""Exchanges, and the routes that their bindings add up to.

A `Route` is the answer for one exchange and routing key: the queues, worked out once and kept. It is valid
while `route.version == route.exchange.version`; every change of bindings raises the version of the exchange
and of all exchanges that lead to it. Where the answer also depends on chance or on each message, as with a
headers exchange on the way, it is worked out anew (`varies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from embermq.broker.deduplication.deduplication import Window, serve_exchange, stop_serving, window_from
from embermq.broker.exchange.hash_types import (
    ConsistentHashMatcher,
    LocalRandomMatcher,
    ModulusHashMatcher,
    RandomMatcher,
)
from embermq.broker.exchange.types import (
    BY_CHANCE,
    FIXED,
    DirectMatcher,
    FanoutMatcher,
    HeadersMatcher,
    Matcher,
    SelectorMatcher,
    TopicMatcher,
)
from embermq.broker.queue.queue import KEEPS_ALL, Queue

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.firehose import Session
    from embermq.broker.message.message import Message
    from embermq.broker.vhost import VirtualHost

ROUTES_MAX = 16384  # kept answers per exchange
DELAYED_TYPE = "x-delayed-message"  # routes as the type in the argument x-delayed-type

MATCHERS: dict[str, Callable[[Mapping[str, object]], Matcher]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
    "x-selector": SelectorMatcher,
    "x-consistent-hash": ConsistentHashMatcher,
    "x-modulus-hash": ModulusHashMatcher,
    "x-random": RandomMatcher,
    "x-local-random": LocalRandomMatcher,
}


class Exchange:
    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
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
        self.matcher: Matcher = MATCHERS[self.routing_type](self.effective)
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
        self.matcher.add(binding)
        destination = binding.destination
        if isinstance(destination, Exchange):
            destination.sources[self] = destination.sources.get(self, 0) + 1
        self.changed()
        return True

    def remove_binding(self, binding: Binding) -> bool:
        """True when there was such a one."""
        found = self.bindings.pop(binding.identity, None)
        if found is None:
            return False
        self.matcher.remove(found)
        destination = found.destination
        if isinstance(destination, Exchange):
            destination.sources[self] -= 1
            if not destination.sources[self]:
                del destination.sources[self]
        self.changed()
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

    def destinations(self, keys: list[str], message: Message | None) -> list[Queue | Exchange]:
        """Where a message goes from here; when nowhere by any of its keys, to the alternate exchange."""
        if not self.name:  # the default exchange: every queue is bound by its name
            queues = self.vhost.queues
            return [queues[key] for key in keys if key in queues]
        found = list(self.matcher.match(keys[0], message))
        for key in keys[1:]:
            found += self.matcher.match(key, message)
        if self.vhost.binding_removal.things:
            found = [destination for destination in found if not destination.deleted]
        if not found and self.alternate is not None:
            alternate = self.vhost.exchanges.get(self.alternate)
            return [] if alternate is None else [alternate]
        return found

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r} {self.type}>"


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
