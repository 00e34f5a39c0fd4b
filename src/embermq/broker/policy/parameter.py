"""Runtime parameters: named values that tools keep in the broker, by component, and global ones.

The broker itself looks at none of them; policies, which RabbitMQ counts among them, have a module of their
own. So whatever a component says is kept as it is, and comes with the definitions.
"""

from __future__ import annotations

import json
from typing import Any

from embermq.broker.definitions import DefinitionStore

GLOBAL = ""  # the component of those that belong to no component and no virtual host


class Parameters:
    """Of one virtual host, or of the broker where the name of that is empty."""

    def __init__(self, definitions: DefinitionStore, vhost: str) -> None:
        self.definitions = definitions
        self.vhost = vhost
        self.values: dict[tuple[str, str], Any] = {}  # by component and name

    def set(self, component: str, name: str, value: Any) -> None:
        self.values[component, name] = value
        body = {"component": component, "name": name, "value": value}
        self.definitions.put("parameter", self.vhost, key_of(component, name), body)

    def delete(self, component: str, name: str) -> None:
        del self.values[component, name]
        self.definitions.delete("parameter", self.vhost, key_of(component, name))

    def delete_all(self) -> None:
        for component, name in list(self.values):
            self.delete(component, name)

    def restore(self, body: dict[str, Any]) -> None:
        self.values[body["component"], body["name"]] = body["value"]


def key_of(component: str, name: str) -> str:
    return json.dumps([component, name])
