"""The HTTP API, as much of it as the tests of policies need; and brokers that have one."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from tests.conftest import TARGETS
from tools.brokers import Broker


@contextmanager
def managed_broker(target: str, **options: Any) -> Iterator[Broker]:
    """RabbitMQ has its API in a plugin that must be asked for."""
    if target == "rabbitmq":
        options["management"] = True
    with TARGETS[target](**options) as broker:
        yield broker


def api(broker: Broker, method: str, *path: str, body: object = None) -> Any:
    """`api(broker, "GET", "queues", "/", "orders")`; the answer's JSON, None when it has none."""
    steps = "/".join(quote(step, safe="") for step in path)
    status, value = Management(broker).ask(method, steps, body)
    assert status < 400, (status, value)
    return value


class Management:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def ask(self, method: str, path: str, body: object = None, login: str = "guest:guest") -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        address = f"http://{self.broker.host}:{self.broker.http_port}/api/{path}"
        authorization = "Basic " + base64.b64encode(login.encode()).decode()
        headers = {"authorization": authorization, "content-type": "application/json"}
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                text = response.read()
                return response.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else None

    def get(self, path: str) -> Any:
        status, value = self.ask("GET", path)
        assert status == 200, (path, status, value)
        return value

    def set_policy(
        self,
        name: str,
        pattern: str,
        *,
        operator: bool = False,
        priority: int = 0,
        apply_to: str = "all",
        **keys: Any,
    ) -> None:
        """`max_length=5` is the key `max-length`."""
        definition = {key.replace("_", "-"): value for key, value in keys.items()}
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        status, value = self.ask("PUT", policy_path(name, operator), body)
        assert status in (201, 204), value

    def delete_policy(self, name: str, *, operator: bool = False) -> None:
        assert self.ask("DELETE", policy_path(name, operator))[0] == 204

    def queue(self, name: str) -> Any:
        return self.get(f"queues/%2F/{quote(name, safe='')}")


def policy_path(name: str, operator: bool) -> str:
    return f"{'operator-' if operator else ''}policies/%2F/{name}"
