"""The HTTP API, for tests: `ask(broker, "GET", "/streams/%2F/name")`."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

from tools.brokers import EmberBroker


class RefusedError(Exception):
    def __init__(self, status: int, reason: object) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status


def ask(broker: EmberBroker, method: str, path: str, body: object = None) -> Any:
    """The answer as JSON; RefusedError with the status and the reason otherwise."""
    login = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"{broker.http_url}/api{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
    except urllib.error.HTTPError as error:
        with error:
            raise RefusedError(error.code, json.loads(error.read() or b"{}").get("reason")) from None
    return json.loads(text) if text else None
