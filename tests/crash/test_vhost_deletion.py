"""A broker dies while it deletes a virtual host with many queues: half of it never stays."""

from __future__ import annotations

import base64
import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

QUEUES = 1000
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


def ask(broker: EmberBroker, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"{broker.http_url}/api/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": LOGIN, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmberBroker]:
    with EmberBroker(tmp_path / "data") as broker:
        queues = [
            {"name": f"q{number}", "vhost": "going", "durable": True, "auto_delete": False, "arguments": {}}
            for number in range(QUEUES)
        ]
        ask(broker, "POST", "definitions", {"vhosts": [{"name": "going"}], "queues": queues})
        yield broker


def begin_deletion(broker: EmberBroker) -> socket.socket:
    """Return when it is under way, or over."""
    connection = socket.create_connection((broker.host, broker.http_port))
    request = f"DELETE /api/vhosts/going HTTP/1.1\r\nHost: broker\r\nAuthorization: {LOGIN}\r\n\r\n"
    connection.sendall(request.encode())
    eventually(lambda: queues_left(broker) < QUEUES)
    return connection


def queues_left(broker: EmberBroker) -> int:
    return int(ask(broker, "GET", "overview")["object_totals"]["queues"])


def vhosts(broker: EmberBroker) -> list[str]:
    return [vhost["name"] for vhost in ask(broker, "GET", "vhosts")]


def test_the_next_start_finishes_what_began(broker: EmberBroker) -> None:
    with begin_deletion(broker):
        broker.kill()
    broker.start()
    # It began and is finished now; or what it began with had not reached the disk, and all is there.
    assert (vhosts(broker), queues_left(broker)) in ((["/"], 0), (["/", "going"], QUEUES))
