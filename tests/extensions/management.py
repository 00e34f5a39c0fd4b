"""A few words of the HTTP API, for tests that need it beside AMQP."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any
from urllib.parse import quote

from tools.brokers import Broker

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


def api(broker: Broker, method: str, *path: str, body: object = None) -> Any:
    """`api(broker, "GET", "queues", "/", "orders")`; the answer's JSON, None when it has none."""
    request = urllib.request.Request(
        f"{broker.http_url}/api/" + "/".join(quote(step, safe="") for step in path),
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": LOGIN, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        data = response.read()
    return json.loads(data) if data else None
