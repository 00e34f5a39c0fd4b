"""Exchange types of plug-ins: whatever their code does, it harms one message at most.

A type that raises, answers nonsense or takes long refuses that message, with the reason; this is logged and
counted. A type that is not there (any more) keeps its exchanges and their bindings, and refuses all messages.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING

from embermq import plugin
from embermq.broker.exchange.types import BY_MESSAGE, Explained, Matcher
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.message.message import Message
    from embermq.broker.queue.queue import Queue

log = logging.getLogger("embermq.plugin")

ROUTE_S_MAX = 0.1


class TypeState:
    """What is known of one exchange type, for all exchanges of it."""

    def __init__(self, name: str, kind: type[plugin.ExchangeType] | None) -> None:
        self.name = name
        self.kind = kind
        self.enabled = kind is not None
        self.failures = 0
        self.last_failure = "" if kind is not None else "not installed"

    def make(self, arguments: Mapping[str, object]) -> PluginMatcher:
        return PluginMatcher(self, arguments)

    def refusal(self, reason: str) -> PreconditionFailed:
        self.failures += 1
        if reason != self.last_failure:  # not a line for each message
            log.error("exchange type %s: %s", self.name, reason)
        self.last_failure = reason
        return PreconditionFailed(f"exchange type '{self.name}' refuses the message: {reason}")


class PluginMatcher(Matcher):
    varies = BY_MESSAGE

    def __init__(self, state: TypeState, arguments: Mapping[str, object]) -> None:
        super().__init__(arguments)
        self.state = state
        self.bindings: dict[Binding, plugin.Binding] = {}
        self.by_number: dict[int, Binding] = {}
        self.last_number = 0
        self.broken = ""  # it could not be made, or lost count of its bindings
        self.type: plugin.ExchangeType | None = None
        if state.kind is not None:
            try:
                self.type = state.kind(arguments)
            except ValueError as error:
                raise PreconditionFailed(f"exchange type '{state.name}': {error}") from error
            except Exception as error:
                raise PreconditionFailed(
                    f"exchange type '{state.name}' fails: {type(error).__name__}: {error}"
                ) from error

    def view(self, binding: Binding) -> plugin.Binding:
        self.last_number += 1
        return plugin.Binding(
            self.last_number,
            binding.destination.name,
            binding.destination_kind,
            binding.routing_key,
            dict(binding.arguments),
        )

    def check(self, binding: Binding) -> None:
        if self.type is None:
            raise PreconditionFailed(f"exchange type '{self.state.name}' is not installed")
        try:
            self.type.check(self.view(binding))
        except ValueError as error:
            raise PreconditionFailed(f"exchange type '{self.state.name}': {error}") from error
        except Exception as error:
            raise self.state.refusal(told(error)) from error

    def add(self, binding: Binding) -> None:
        view = self.bindings[binding] = self.view(binding)
        self.by_number[view.number] = binding
        self.attempt("bind", view)

    def remove(self, binding: Binding) -> None:
        view = self.bindings.pop(binding)
        del self.by_number[view.number]
        self.attempt("unbind", view)

    def attempt(self, name: str, view: plugin.Binding) -> None:
        if self.type is not None:
            try:
                getattr(self.type, name)(view)
            except Exception as error:
                self.broken = f"{name} failed: {told(error)}"
                log.exception("exchange type %s: %s", self.state.name, name)

    def match(self, routing_key: str, message: Message | None) -> Collection[Queue | Exchange]:
        if message is None:
            return ()
        return [binding.destination for binding in self.chosen(routing_key, message)]

    def chosen(self, routing_key: str, message: Message) -> list[Binding]:
        if self.type is None or not self.state.enabled:
            reason = "it is not installed" if self.type is None else "it is switched off"
            raise self.state.refusal(reason)
        if self.broken:
            raise self.state.refusal(self.broken)
        view = plugin.Message(message.exchange, routing_key, lambda: message.properties, lambda: message.body)
        began_s = perf_counter()
        try:
            found = [self.by_number[each.number] for each in self.type.route(view)]
        except Exception as error:
            raise self.state.refusal(told(error)) from error
        took_s = perf_counter() - began_s
        if took_s > ROUTE_S_MAX:
            raise self.state.refusal(f"it takes too long ({ROUTE_S_MAX * 1000:.0f} ms is the most)")
        return found

    def explain(self, bindings: Iterable[Binding], keys: list[str], message: Message) -> Iterator[Explained]:
        try:
            chosen = {binding for key in keys for binding in self.chosen(key, message)}
        except PreconditionFailed as error:
            yield from ((binding, False, error.detail) for binding in bindings)
            return
        for binding in bindings:
            reason = "chosen" if binding in chosen else "not chosen"
            yield binding, binding in chosen, f"{reason} by the exchange type '{self.state.name}'"


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
