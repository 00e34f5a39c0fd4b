"""Deletion of exchanges and queues with their bindings, very many of them in pieces.

A deleted thing is gone at once: its name is free, and nothing is routed to it or by it
(`Exchange.destinations` passes it over). The bindings then leave memory and disk one after the other. The
deletion is answered when the last one has left; a declaration of the same name waits
for that, so that no binding of the old thing is ever taken for one of the new. A crash in the middle leaves
definitions of bindings without their ends, which the next start removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.deduplication.deduplication import stop_serving
from embermq.broker.events import named, queue_deleted
from embermq.broker.exchange.binding import Binding, whole_paths
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.queue.queue import Queue

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.vhost import VirtualHost

REPLY_PREFIX = "amq.rabbitmq.reply-to."  # of the addresses for direct replies
PIECE_COUNT = 64  # bindings in one go

Thing = Exchange | Queue


class BindingRemoval:
    """Deleted things of one virtual host that still have bindings."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.incremental_work = vhost.turn.incremental_work
        self.things: dict[tuple[type, str], Thing] = {}  # which work each belongs to

    def note(self, thing: Thing) -> None:
        """It is gone, and is passed over from now on."""
        self.things[kind_of(thing), thing.name] = thing

    def begin(self, thing: Thing, pieces: Pieces) -> None:
        """Unless that is done in one go, it is under way from now on."""
        pieces = self.vhost.events.acting_in_pieces(pieces)
        self.incremental_work.start(pieces, lambda: self.over(thing), about=thing)

    def over(self, thing: Thing) -> None:
        self.things = {key: work for key, work in self.things.items() if work is not thing}

    def is_under_way(self, thing: Thing) -> bool:
        return self.things.get((kind_of(thing), thing.name)) is thing

    def is_going(self, kind: type[Thing], name: str) -> bool:
        """Is there still something of a deleted one?"""
        return (kind, name) in self.things

    def finish(self, kind: type[Thing], name: str) -> None:
        """There will be another one of this name."""
        thing = self.things.get((kind, name))
        if thing is not None:
            self.incremental_work.finish_about(thing)

    def finish_all(self) -> None:
        for thing in list(self.things.values()):
            self.incremental_work.finish_about(thing)

    # -- the bindings

    def of_exchange(self, exchange: Exchange) -> Pieces:
        """All that lead from it or to it; other exchanges may have to go for that reason."""
        vhost = self.vhost
        doomed = [exchange]
        removed = 0
        for going in doomed:  # grows while we walk: auto-delete exchanges may hang on each other in a chain
            bindings = self.cut_off(going)
            bindings += going.bindings.values()
            for source in going.sources:
                if source is not going:
                    bindings += [b for b in source.bindings.values() if b.destination is going]
            for binding in bindings:
                vhost.remove_binding(binding)
                source = binding.source
                if source is not going and vhost.is_unused(source):
                    vhost.take_out(source)
                    self.things[Exchange, source.name] = exchange
                    doomed.append(source)
                removed += 1
                if removed % PIECE_COUNT == 0:
                    yield
            going.changed()
            if going.deduplication is not None:
                going.deduplication = None
                stop_serving(going)
            vhost.events.emit("exchange.deleted", named, going)
            vhost.policies.forget(going)

    def cut_off(self, going: Exchange) -> list[Binding]:
        """Bindings of the rules that an exchange was part of by chained bindings: without it they would let
        more through. Those at the heads of their chains come first, also for the sake of a crash."""
        destinations = {b.destination: None for b in [*going.bindings.values(), *going.via_here] if b.chained}
        found: list[Binding] = []
        for destination in destinations:
            bindings = self.vhost.bindings_to(destination)
            paths = {binding.path for binding in bindings}
            left = whole_paths(paths, lambda path: going in path)
            found += [binding for binding in bindings if binding.path not in left]
        return sorted(found, key=lambda binding: len(binding.path))

    def of_queue(self, queue: Queue) -> Pieces:
        vhost = self.vhost
        for number, binding in enumerate(list(vhost.queue_bindings.get(queue, ())), 1):
            vhost.remove_binding(binding)
            vhost.delete_if_unused(binding.source)
            if number % PIECE_COUNT == 0:
                yield
        vhost.queue_bindings.pop(queue, None)
        if not queue.name.startswith(REPLY_PREFIX):  # its creation was no event either
            vhost.events.emit("queue.deleted", queue_deleted, queue)


def kind_of(thing: Thing) -> type[Thing]:
    return Exchange if isinstance(thing, Exchange) else Queue
