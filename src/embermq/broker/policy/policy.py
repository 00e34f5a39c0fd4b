"""Policies: arguments for all queues and exchanges whose names fit a pattern, changed while these live.

For each thing at most one policy and one operator policy hold: of those that fit, the one with the highest
priority, and among equals the first by name. A policy that says something its kind of thing does not
understand is not for that thing at all. All this is as in RabbitMQ.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.incremental_work import Pieces
from embermq.broker.policy.effective import Effective, merged_policies, resolve
from embermq.broker.policy.keys import EXCHANGE, KEYS, in_erlang, problem_with
from embermq.broker.queue.queue import Queue
from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.broker")

POLICY, OPERATOR_POLICY = "policy", "operator_policy"  # kinds of definitions, components of parameters
EVENTS = {POLICY: "policy", OPERATOR_POLICY: "operator.policy"}
QUEUE_KINDS = {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}
APPLY_TO = ("all", "queues", "exchanges", *QUEUE_KINDS)
REPLY_QUEUE_PREFIX = "amq.rabbitmq.reply-to"  # policies do not apply to these


class Policy:
    """One of them. `definition` has the names of policies (`max-length`), not of arguments."""

    def __init__(
        self, name: str, pattern: str, definition: dict[str, object], priority: float, apply_to: str
    ) -> None:
        self.name = name
        self.pattern = pattern
        self.definition = definition
        self.priority = priority
        self.apply_to = apply_to
        self.compiled = compile_pattern(pattern)
        self.holds_for = frozenset.intersection(*(KEYS[key].holds_for for key in definition))

    def fits(self, name: str, kind: str) -> bool:
        return self.is_for(kind) and self.compiled(name)

    def is_for(self, kind: str) -> bool:
        if kind == EXCHANGE:
            return self.apply_to in ("all", "exchanges")
        if self.apply_to not in ("all", "queues") and QUEUE_KINDS.get(self.apply_to) != kind:
            return False
        return kind in self.holds_for

    @property
    def body(self) -> dict[str, Any]:
        """The body of its definition, and as the value of a parameter."""
        return {
            "pattern": self.pattern,
            "definition": self.definition,
            "priority": self.priority,
            "apply-to": self.apply_to,
        }


def policy_from(name: str, body: Mapping[str, Any], for_operator: bool) -> Policy:
    """From a request; PreconditionFailed with RabbitMQ's text where it is wrong."""
    pattern, definition = body.get("pattern"), body.get("definition")
    priority, apply_to = body.get("priority", 0), body.get("apply-to", "all")
    problems = [
        problem_with(definition, for_operator),
        problem_with_apply_to(apply_to),
        problem_with_pattern(pattern),
        problem_with_priority(priority),
    ]
    told = [problem for problem in problems if problem is not None]
    if told:
        raise PreconditionFailed("Validation failed\n\n" + "".join(f"{problem}\n" for problem in told))
    assert isinstance(definition, dict) and isinstance(pattern, str)
    return Policy(name, pattern, dict(definition), priority, apply_to)


def problem_with_priority(priority: object) -> str | None:
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        return f"priority should be a number, actually was {in_erlang(priority)}"
    return None


def problem_with_pattern(pattern: object) -> str | None:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {in_erlang(pattern)}"
    try:
        compile_pattern(pattern)
    except PatternError as error:
        return f'pattern should be regular expression but is invalid: {{"{error}",{error.position}}}'
    return None


def problem_with_apply_to(apply_to: object) -> str | None:
    """In the words of RabbitMQ 4."""
    if isinstance(apply_to, str) and apply_to in APPLY_TO:
        return None
    shown = apply_to if isinstance(apply_to, str) else in_erlang(apply_to)
    return (
        f"apply-to '{shown}' unrecognised; should be one of: 'queues', 'classic_queues', "
        "'quorum_queues', 'streams', 'exchanges', or 'all'"
    )


@dataclass(frozen=True)
class InForce:
    """What holds for one thing."""

    policy: Policy | None = None
    operator_policy: Policy | None = None

    @property
    def definition(self) -> dict[str, object]:
        """Both in one."""
        return merged_policies(*self.definitions)[0]

    @property
    def definitions(self) -> tuple[dict[str, object], dict[str, object]]:
        policy, operator_policy = self.policy, self.operator_policy
        return (
            {} if policy is None else policy.definition,
            {} if operator_policy is None else operator_policy.definition,
        )

    def over(self, declared: dict[str, object], template: Mapping[str, object] | None = None) -> Effective:
        """The effective arguments of a declaration."""
        return resolve(declared, template, *self.definitions)


NOTHING = InForce()


class Policies:
    """Of one virtual host."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.kinds: dict[str, dict[str, Policy]] = {POLICY: {}, OPERATOR_POLICY: {}}
        self.unchecked: deque[Queue | Exchange] = deque()  # since the last change
        self.in_force: dict[Queue | Exchange, InForce] = {}  # only of things for which there is something

    def set(self, kind: str, policy: Policy) -> None:
        self.kinds[kind][policy.name] = policy
        self.vhost.definitions.put(kind, self.vhost.name, policy.name, policy.body)
        self.changed()
        body = {"vhost": self.vhost.name, "name": policy.name, **policy.body}
        self.vhost.events.emit(EVENTS[kind] + ".set", dict, body)

    def delete(self, kind: str, name: str) -> None:
        del self.kinds[kind][name]
        self.vhost.definitions.delete(kind, self.vhost.name, name)
        self.changed()
        self.vhost.events.emit(EVENTS[kind] + ".cleared", dict, {"vhost": self.vhost.name, "name": name})

    def delete_all(self) -> None:
        """The virtual host goes."""
        for kind, policies in self.kinds.items():
            for name in policies:
                self.vhost.definitions.delete(kind, self.vhost.name, name)
            policies.clear()

    def restore(self, kind: str, name: str, body: Mapping[str, Any]) -> None:
        """At start, before there are queues and exchanges."""
        try:
            self.kinds[kind][name] = policy_from(name, body, kind == OPERATOR_POLICY)
        except PreconditionFailed as error:  # of another version of EmberMQ
            log.error("%s '%s' in vhost '%s' is passed over: %s", kind, name, self.vhost.name, error)

    def changed(self) -> None:
        """What holds may be different for anything: look at everything, at some of many at a time."""
        self.unchecked = deque([*self.vhost.exchanges.values(), *self.vhost.queues.values()])
        work = self.vhost.turn.incremental_work
        if not work.about(self):
            work.start(self.check_pieces(), about=self, share_s=work.share_s)

    def check_pieces(self) -> Pieces:
        while self.unchecked:
            thing = self.unchecked.popleft()
            try:
                if isinstance(thing, Exchange):
                    if self.vhost.exchanges.get(thing.name) is thing:
                        self.apply_to_exchange(thing)
                elif not thing.deleted:
                    self.apply_to_queue(thing)
            except Exception:  # what is wrong with one must not keep the others from their policies
                log.exception("a fault of ours, applying policies to %r", thing)
            yield

    def apply_to_queue(self, queue: Queue) -> None:
        found = self.for_queue(queue.name, queue.type)
        if self.note(queue, found):
            queue.effective_changed(self.effective(queue).values)

    def effective(self, queue: Queue) -> Effective:
        """The arguments that hold for a queue, with their sources."""
        return self.of(queue).over(queue.arguments, self.vhost.templated.get(queue))

    def for_queue(self, name: str, type: str) -> InForce:
        return NOTHING if name.startswith(REPLY_QUEUE_PREFIX) else self.matching(name, type)

    def apply_to_exchange(self, exchange: Exchange) -> None:
        found = self.matching(exchange.name, EXCHANGE)
        if self.note(exchange, found):
            exchange.effective_changed(found.over(exchange.arguments).values)

    def note(self, thing: Queue | Exchange, found: InForce) -> bool:
        """True when that is not what held before."""
        if found == self.of(thing):
            return False
        if found == NOTHING:
            del self.in_force[thing]
        else:
            self.in_force[thing] = found
        return True

    def matching(self, name: str, kind: str) -> InForce:
        return InForce(self.best(POLICY, name, kind), self.best(OPERATOR_POLICY, name, kind))

    def best(self, policies: str, name: str, kind: str) -> Policy | None:
        fitting = [policy for policy in self.kinds[policies].values() if policy.fits(name, kind)]
        return min(fitting, key=lambda policy: (-policy.priority, policy.name), default=None)

    def of(self, thing: Queue | Exchange) -> InForce:
        return self.in_force.get(thing, NOTHING)

    def forget(self, thing: Queue | Exchange) -> None:
        self.in_force.pop(thing, None)
