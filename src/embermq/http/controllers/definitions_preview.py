"""What an import of definitions would change: each thing in the document beside what is there.

An import changes users, virtual hosts, permissions, parameters, templates and policies that are there, and
leaves queues, exchanges and bindings that are there as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from embermq.broker.broker import Broker
from embermq.broker.exchange.binding import identity_of
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.parameters import global_parameter_views, parameter_views
from embermq.http.controllers.permissions import permission_views, topic_permission_views
from embermq.http.controllers.queues import template_view
from embermq.http.controllers.users import tags_of
from embermq.http.openapi import schemas
from embermq.http.server.cooperative import Steps
from embermq.http.views.views import (
    View,
    binding_definition,
    exchange_definition,
    policy_view,
    properties_key,
    queue_definition,
    user_view,
    vhost_metadata,
)

ADDED, CHANGED, KEPT, SAME, REFUSED = "added", "changed", "kept", "same", "refused"
SHOWN_MAX = 10_000
NEVER_SHOWN = {"password_hash", "password", "hashing_algorithm"}  # that it changes is told, not to what
PREVIEW = schemas.every(
    counts={"type": "object", "additionalProperties": schemas.COUNT},
    changes=schemas.list_of(
        schemas.every(
            kind=schemas.TEXT,
            vhost=schemas.TEXT_OR_NULL,
            name=schemas.TEXT,
            change={"enum": [ADDED, CHANGED, KEPT, REFUSED]},
            differences=schemas.OBJECT,
        )
    ),
    cut=schemas.BOOLEAN,
)
Known = dict[tuple[str, str], View]


def known_users(broker: Broker) -> Known:
    return {("", user.name): user_view(user) for user in broker.users.values()}


def known_vhosts(broker: Broker) -> Known:
    return {
        ("", vhost.name): {**vhost_metadata(vhost), "metadata": vhost_metadata(vhost)}
        for vhost in broker.vhosts.values()
    }


def known_permissions(broker: Broker) -> Known:
    return {(view["vhost"], view["user"]): view for view in permission_views(list(broker.users.values()))}


def known_topic_permissions(broker: Broker) -> Known:
    views = topic_permission_views(list(broker.users.values()))
    return {(view["vhost"], f"{view['user']} at {view['exchange']}"): view for view in views}


def known_templates(broker: Broker) -> Known:
    templates = broker.defaults.templates
    return {("", name): template_view(templates, name) for name in templates.all()}


def known_global_parameters(broker: Broker) -> Known:
    return {("", view["name"]): view for view in global_parameter_views(broker)}


def name_of_permission(body: View) -> str:
    return str(body.get("user"))


def name_of_topic_permission(body: View) -> str:
    return f"{body.get('user')} at {body.get('exchange')}"


def name_of_parameter(body: View) -> str:
    return f"{body.get('component')}/{body.get('name')}"


def name_of_binding(body: View) -> str:
    ends = f"{body.get('source')} -> {body.get('destination_type')} {body.get('destination')}"
    arguments = body.get("arguments") or {}
    return f"{ends} ({properties_key(str(body.get('routing_key', '')), arguments)})"


def name_of(body: View) -> str:
    return str(body.get("name"))


# What a document has for the whole broker, and what for a virtual host. Does it change what is there?
IN_BROKER: tuple[tuple[str, Callable[[View], str], Callable[[Broker], Known]], ...] = (
    ("users", name_of, known_users),
    ("vhosts", name_of, known_vhosts),
    ("permissions", name_of_permission, known_permissions),
    ("topic_permissions", name_of_topic_permission, known_topic_permissions),
    ("templates", name_of, known_templates),
    ("global_parameters", name_of, known_global_parameters),
)
IN_VHOST: tuple[tuple[str, Callable[[View], str], bool], ...] = (
    ("parameters", name_of_parameter, True),
    ("policies", name_of, True),
    ("queues", name_of, False),
    ("exchanges", name_of, False),
    ("bindings", name_of_binding, False),
)


def found_in(vhost: VirtualHost, kind: str, body: View) -> View | None:
    """The thing that is there under the name that the document gives it."""
    if kind == "queues":
        queue = vhost.queues.get(name_of(body))
        return None if queue is None else queue_definition(queue)
    if kind == "exchanges":
        exchange = vhost.exchanges.get(name_of(body))
        return None if exchange is None else exchange_definition(exchange)
    if kind == "policies":
        policy = vhost.policies.kinds[POLICY].get(name_of(body))
        return None if policy is None else policy_view(vhost, policy)
    if kind == "parameters":
        component = str(body.get("component"))
        views = parameter_views(vhost, component if component in (POLICY, OPERATOR_POLICY) else None)
        return next((view for view in views if name_of_parameter(view) == name_of_parameter(body)), None)
    return binding_in(vhost, body)


def binding_in(vhost: VirtualHost, body: View) -> View | None:
    source = vhost.exchanges.get(str(body.get("source")))
    things: Mapping[str, Queue | Exchange]
    things = vhost.queues if body.get("destination_type") == "queue" else vhost.exchanges
    destination = things.get(str(body.get("destination")))
    if source is None or destination is None:
        return None
    if not source.name:
        return body  # every queue is bound to the default exchange anyway
    identity = identity_of(destination, str(body.get("routing_key", "")), body.get("arguments") or {})
    binding = source.bindings.get(identity)
    return None if binding is None else binding_definition(binding)


def differences(body: View, there: View) -> View:
    """Fields of the document with another value than there is, as [now, then]."""
    found: View = {}
    for name, value in body.items():
        now = there.get(name)
        if name == "tags":
            value, now = sorted(tags_of(value)), sorted(tags_of(now or []))
        if name in NEVER_SHOWN:
            if name == "password" or (name == "password_hash" and value != now):
                found["password"] = ["...", "another one"]
        elif name in there and value != now:
            found[name] = [now, value]
    return found


class Preview:
    def __init__(self, broker: Broker, only: VirtualHost | None = None) -> None:
        self.broker = broker
        self.only = only
        self.new_vhosts: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.changes: list[View] = []

    def note(self, kind: str, vhost: str | None, name: str, change: str, told: View) -> None:
        self.counts[change] += 1
        if change != SAME and len(self.changes) < SHOWN_MAX:
            self.changes.append(
                {"kind": kind, "vhost": vhost, "name": name, "change": change, "differences": told}
            )

    def compare(
        self, kind: str, vhost: str | None, name: str, body: View, there: View | None, changes: bool
    ) -> None:
        if there is None:
            self.note(kind, vhost, name, ADDED, {})
        elif not (told := differences(body, there)):
            self.note(kind, vhost, name, SAME, {})
        else:
            self.note(kind, vhost, name, CHANGED if changes else KEPT, told)

    async def add_broker(self, sections: tuple[Any, ...], things: Any, steps: Steps) -> None:
        for kind, named, known_in in IN_BROKER:
            known = known_in(self.broker)
            having = [section for section in sections if hasattr(section, kind)]
            for body in chain.from_iterable(things(section, kind) for section in having):
                vhost = str(body["vhost"]) if "vhost" in body else ""
                if kind == "vhosts":
                    self.new_vhosts.add(name_of(body))
                self.compare(kind, vhost or None, named(body), body, known.get((vhost, named(body))), True)
                await steps.pause()

    async def add_topology(self, document: Any, things: Any, steps: Steps) -> None:
        for kind, named, changes in IN_VHOST:
            for body in things(document, kind):
                name = self.only.name if self.only is not None else str(body.get("vhost"))
                vhost = self.broker.vhosts.get(name)
                if vhost is not None:
                    self.compare(kind, name, named(body), body, found_in(vhost, kind, body), changes)
                elif name in self.new_vhosts:
                    self.note(kind, name, named(body), ADDED, {})
                else:
                    self.note(kind, name, named(body), REFUSED, {"vhost": ["none", name]})
                await steps.pause()

    def view(self) -> View:
        total = sum(count for change, count in self.counts.items() if change != SAME)
        return {
            "counts": dict(self.counts),
            "changes": self.changes,
            "cut": total > len(self.changes),
        }
