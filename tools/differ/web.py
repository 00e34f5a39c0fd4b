"""The HTTP API, as a client that asks exactly what it is told and tells what can be compared.

Refusals are compared word by word. Of what succeeds, the fields in STABLE are: the others are statistics,
which come and go with the clock.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from typing import Any

BROUGHT = ("vhosts/v1", "users/u1", "policies/%2F/p1")
ROLES = ("none", "management", "policymaker", "monitoring", "administrator")
STABLE = frozenset(
    {"name", "vhost", "durable", "auto_delete", "exclusive", "internal", "type", "arguments", "source"}
    | {
        "destination",
        "destination_type",
        "routing_key",
        "properties_key",
        "user",
        "configure",
        "write",
        "read",
    }
    | {"exchange", "pattern", "definition", "priority", "apply-to", "value", "component", "tracing"}
    | {"payload", "properties", "headers", "redelivered"}
    | {"payload_bytes", "payload_encoding", "routed", "message_count", "status", "default_queue_type", "tags"}
    | {"description", "error", "reason", "users", "vhosts", "permissions", "topic_permissions", "parameters"}
    | {"global_parameters", "policies", "queues", "exchanges", "bindings"}
)
# What RabbitMQ 4 says of every virtual host, and 3.10 of none that has nothing of the kind, or otherwise.
UNSAID: tuple[tuple[str, Any], ...] = (
    ("description", ""),
    ("description", "Default virtual host"),
    ("tags", []),
    ("default_queue_type", "classic"),
    ("default_queue_type", "undefined"),
)
DEEP = frozenset({"arguments", "definition", "value", "properties", "headers"})


class Web:
    def __init__(self, port: int) -> None:
        self.port = port
        self.undo: list[str] = []

    def prepare(self) -> None:
        """A user for every role, whose password is its name, who may do everything in "/"."""
        for role in ROLES:
            tags = "" if role == "none" else role
            self.ask({"ask": "PUT", "path": f"/api/users/{role}", "body": {"password": role, "tags": tags}})
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            self.ask({"ask": "PUT", "path": f"/api/permissions/%2F/{role}", "body": rights})
        self.undo.clear()

    def ask(self, step: dict[str, Any]) -> dict[str, Any]:
        """Status, place and body of the answer."""
        user = step.get("as", "guest")
        headers = {"authorization": "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()}
        body = step.get("body")
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["content-type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(step["ask"], step["path"], data, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.status in (201, 204) and step["ask"] in ("PUT", "POST"):
            self.undo.append(step["path"])
        told: dict[str, Any] = {"status": response.status, "body": stable(parsed(text))}
        if response.headers.get("location"):
            told["location"] = response.headers["location"].removeprefix(f"http://127.0.0.1:{self.port}")
        return told

    def clean(self) -> None:
        """What was put is deleted, last first; and what a definitions file may have brought."""
        if not self.undo:
            return
        while self.undo:
            self.ask({"ask": "DELETE", "path": self.undo.pop()})
        for path in BROUGHT:
            self.ask({"ask": "DELETE", "path": f"/api/{path}"})
        self.undo.clear()


def parsed(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode("utf-8", "backslashreplace")


def stable(value: Any, deep: bool = False) -> Any:
    """Without statistics; lists in an order of our own."""
    if value == "undefined" and deep:
        return None  # a field without a value, in Erlang's word
    if isinstance(value, dict):
        kept = {
            name: stable(item, deep or name in DEEP)
            for name, item in value.items()
            if deep or (name in STABLE and (name, item) not in UNSAID)
        }
        if isinstance(key := kept.get("properties_key"), str):
            kept["properties_key"] = re.sub("~.*", "~", key)  # behind it are arguments, hashed by Erlang
        return kept
    if isinstance(value, list):
        items = [stable(item, deep) for item in value if not is_of_one_side(item)]
        of_things = not deep and all(isinstance(item, dict) for item in items)
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if of_things else items
    return value


def is_of_one_side(value: Any) -> bool:
    """A global parameter, a queue or (with a plugin) an exchange that only RabbitMQ makes for itself."""
    return isinstance(value, dict) and not {value.get("name"), value.get("destination")}.isdisjoint(
        {"internal_cluster_id", "amq.rabbitmq.event", "aliveness-test"}
    )
