"""Explanation of a route: every binding that a message comes to, whether it matches, and why.

It walks as `Exchange.resolve` does, and asks the exchange types for their reasons instead of their answers. A
generator: the bindings may be very many, and whoever asks decides when to pause.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.exchange import Exchange, Link
from embermq.broker.exchange.types import SYSTEM_TYPE, Explained
from embermq.broker.queue.queue import Queue

if TYPE_CHECKING:
    from embermq.broker.message.message import Message


class Finding(NamedTuple):
    """One step on the way: a binding, the default exchange's look-up of a name, or an alternate exchange."""

    source: Exchange
    destination: str
    destination_kind: str
    routing_key: str
    arguments: dict[str, object]
    matched: bool
    reason: str


class Explanation:
    def __init__(self, exchange: Exchange, message: Message, more_keys: Iterable[str] = ()) -> None:
        self.message = message
        self.keys = [message.routing_key, *more_keys]
        self.queues: dict[Queue, None] = {}
        self.by_chance = False  # the queues are those that it may reach
        self.dead_ends: list[str] = []  # exchanges that lead nowhere, and why
        self.exchanges = [exchange]

    def findings(self) -> Iterator[Finding]:
        known = set(self.exchanges)
        for exchange in self.exchanges:  # grows while we walk; cycles end because each comes once
            reached = False
            for finding, destination in self.at_exchange(exchange):
                yield finding
                if not finding.matched or destination is None:
                    continue
                reached = True
                if isinstance(destination, Queue):
                    self.queues[destination] = None
                elif destination not in known:
                    known.add(destination)
                    self.exchanges.append(destination)
            if not reached:
                self.dead_ends.append(dead_end(exchange))

    def at_exchange(self, exchange: Exchange) -> Iterator[tuple[Finding, Queue | Exchange | None]]:
        if not exchange.name:
            yield from self.by_queue_names(exchange)
            return
        if exchange.type == SYSTEM_TYPE:
            yield from self.by_services(exchange)
            return
        bindings = [binding for binding in exchange.bindings.values() if not binding.chained]
        link = exchange.chain or Link(exchange, exchange.matcher)
        reached = False
        for binding, matched, reason in self.at_link(link, bindings):
            is_own = not binding.chained  # others are conditions of those
            reached |= matched and is_own
            yield finding_of(binding, matched, reason), binding.destination if is_own else None
        alternate = exchange.vhost.exchanges.get(exchange.alternate or "")
        if not reached and exchange.alternate is not None and alternate is not None:
            reason = f"no binding of '{exchange.name}' matches, and this is its alternate exchange"
            yield Finding(exchange, alternate.name, "exchange", "", {}, True, reason), alternate

    def at_link(self, link: Link, bindings: list[Binding]) -> Generator[Explained, None, set[object]]:
        """The bindings further along the chain, then these; in the end the destinations that come through."""
        through_others: set[object] = set()
        for further in link.further.values():
            if not further.exchange.deleted:
                through_others |= yield from self.at_link(further, list(further.bindings))
        self.by_chance |= link.matcher.by_chance and len(bindings) > 1
        through: set[object] = set()
        for binding, matched, reason in link.matcher.explain(bindings, self.keys, self.message):
            destination = binding.destination
            if destination.deleted:
                continue
            if matched and destination in link.narrowed and destination not in through_others:
                matched, reason = False, f"{reason}, but no binding via '{link.exchange.name}' holds"
            if matched:
                through.add(destination)
            yield binding, matched, reason
        return through

    def by_services(self, exchange: Exchange) -> Iterator[tuple[Finding, None]]:
        for key in dict.fromkeys(self.keys):
            is_there = exchange.vhost.service(key) is not None
            reason = f"there is {'a' if is_there else 'no'} service of this name"
            yield Finding(exchange, key, "service", key, {}, is_there, reason), None

    def by_queue_names(self, exchange: Exchange) -> Iterator[tuple[Finding, Queue | None]]:
        for key in dict.fromkeys(self.keys):
            queue = exchange.vhost.queues.get(key)
            if queue is not None:
                reason = "the routing key is the queue's name"
                yield Finding(exchange, key, "queue", key, {}, True, reason), queue

    @property
    def unroutable_reason(self) -> str | None:
        """Why it reaches no queue at all."""
        return None if self.queues else "; ".join(self.dead_ends)


def finding_of(binding: Binding, matched: bool, reason: str) -> Finding:
    return Finding(
        binding.source,
        binding.destination.name,
        binding.destination_kind,
        binding.routing_key,
        binding.arguments,
        matched,
        reason,
    )


def dead_end(exchange: Exchange) -> str:
    if not exchange.name:
        return "no queue has the routing key as its name"
    why = "matches none of its bindings" if exchange.bindings else "finds no bindings there"
    text = f"at exchange '{exchange.name}' the message {why}"
    if exchange.alternate is not None:
        return f"{text}, and there is no alternate exchange '{exchange.alternate}'"
    return text
