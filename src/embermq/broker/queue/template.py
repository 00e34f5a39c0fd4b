"""Defaults and templates of queues: what holds where a declaration says nothing, or refers to a template.

    queue.declare "invoices", x-template = "jobs", x-message-ttl = 5

has the arguments of the template `jobs`, but for what it says itself. They are those of the moment of the
declaration and stay with the queue: a template that changes, or goes, changes no queue that is there.

`x-namespace` puts a word and a dot before the name of the queue, in a declaration or for all of a template.
(003, Queue Namespaces, Queue Templating.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from embermq.broker.definitions import DefinitionStore, packed, unpacked
from embermq.broker.stream.arguments import check_declaration
from embermq.errors import PreconditionFailed

TEMPLATE, NAMESPACE = "x-template", "x-namespace"
Arguments = dict[str, object]


DELIVERY_LIMIT = 20  # as RabbitMQ has for its quorum queues since version 4
CONSUMER_TIMEOUT_MS = 30 * 60 * 1000


class Templates:
    """Those of the configuration, which only that can change, and those that were set since."""

    def __init__(self, configured: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self.configured: dict[str, Arguments] = {}
        for name, arguments in (configured or {}).items():
            check_template(name, arguments)
            self.configured[name] = dict(arguments)
        self.stored: dict[str, Arguments] = {}
        self.definitions = DefinitionStore()

    def all(self) -> dict[str, Arguments]:
        return {**self.stored, **self.configured}

    def set(self, name: str, arguments: Arguments) -> None:
        self.require_ours(name)
        check_template(name, arguments)
        self.stored[name] = arguments
        self.definitions.put("template", "", name, packed(arguments))

    def delete(self, name: str) -> None:
        self.require_ours(name)
        del self.stored[name]
        self.definitions.delete("template", "", name)

    def restore(self, name: str, body: dict[str, object]) -> None:
        self.stored[name] = unpacked(body)

    def require_ours(self, name: str) -> None:
        if name in self.configured:
            raise PreconditionFailed(f"template '{name}' is in the configuration, and changes there only")

    def known(self, arguments: Mapping[str, object]) -> Arguments | None:
        """The arguments of the template that a declaration refers to, should there still be such a one."""
        name = arguments.get(TEMPLATE)
        if name is None:
            return {}
        return self.all().get(name) if isinstance(name, str) else None

    def combined(self, arguments: Mapping[str, object]) -> Arguments:
        """All that a declaration says."""
        return {**(self.known(arguments) or {}), **arguments}

    def required(self, arguments: Mapping[str, object], what: str) -> Arguments:
        """What a new queue has from a template."""
        found = self.known(arguments)
        if found is None:
            name = arguments[TEMPLATE]
            known = ", ".join(f"'{known}'" for known in sorted(self.all())) or "none"
            raise PreconditionFailed(
                f"invalid arg '{TEMPLATE}' for {what}: no template '{name}'; there are {known}"
            )
        return found

    def full_name(self, name: str, arguments: Mapping[str, object]) -> str:
        """The name of a queue with its namespace; a name that has it before is left as it is."""
        what = f"queue '{name}'"
        namespace = self.combined(arguments).get(NAMESPACE, "")
        if not isinstance(namespace, str):
            raise PreconditionFailed(f"invalid arg '{NAMESPACE}' for {what}: a namespace is text")
        if not namespace or (name.startswith(f"{namespace}.") and name != f"{namespace}."):
            return name
        return f"{namespace}.{name}"


@dataclass
class Defaults:
    """The part of the configuration that holds where a declaration says nothing."""

    delivery_limit: int = DELIVERY_LIMIT  # 0 or less: none
    consumer_timeout_ms: int = CONSUMER_TIMEOUT_MS  # 0: none
    templates: Templates = field(default_factory=Templates)


def check_template(name: str, arguments: Mapping[str, object]) -> None:
    if TEMPLATE in arguments:
        raise PreconditionFailed(f"invalid arg '{TEMPLATE}' for template '{name}': templates do not nest")
    if not isinstance(arguments.get(NAMESPACE, ""), str):
        raise PreconditionFailed(f"invalid arg '{NAMESPACE}' for template '{name}': a namespace is text")
    check_declaration(f"template '{name}'", arguments, durable=True, exclusive=False, auto_delete=False)
