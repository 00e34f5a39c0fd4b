"""What the tests of this directory do: ask the API as somebody, connect as somebody."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tools.brokers import Broker


class Reply(NamedTuple):
    status: int
    json: Any


def ask(
    broker: Broker, method: str, *path: str, body: object = None, login: str = "guest:guest", token: str = ""
) -> Reply:
    """`ask(broker, "GET", "queues", "/", "orders")`"""
    credentials = f"Bearer {token}" if token else "Basic " + base64.b64encode(login.encode()).decode()
    request = urllib.request.Request(
        f"{broker.http_url}/api/" + "/".join(quote(step, safe="") for step in path),
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": credentials, "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            data = response.read()
            return Reply(response.status, json.loads(data) if data else None)
    except urllib.error.HTTPError as error:
        data = error.read()
        return Reply(error.code, json.loads(data) if data else None)


def put(broker: Broker, *path: str, **body: object) -> None:
    reply = ask(broker, "PUT", *path, body=body)
    assert reply.status in (201, 204), reply


def make_user(broker: Broker, name: str, vhost: str | None = "/", tags: str = "", **patterns: str) -> None:
    """A user whose password is the name; with all permissions unless patterns are given."""
    put(broker, "users", name, password=name, tags=tags)
    if vhost is not None:
        permission = {"configure": ".*", "write": ".*", "read": ".*", **patterns}
        put(broker, "permissions", vhost, name, **permission)


def parameters(broker: Broker, user: str, vhost: str = "/", **more: Any) -> pika.ConnectionParameters:
    credentials = pika.PlainCredentials(user, more.pop("password", user))
    return pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials, heartbeat=0, **more)


def connect(broker: Broker, user: str, vhost: str = "/", **more: Any) -> pika.BlockingConnection:
    return pika.BlockingConnection(parameters(broker, user, vhost, **more))


def publish(channel: BlockingChannel, exchange: str, key: str, **properties: Any) -> None:
    """And know that it was taken."""
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))
