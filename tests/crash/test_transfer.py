"""Messages that move while the broker dies: each is in one queue or in both, never in none."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pika
import pytest

from tools.brokers import EmberBroker

COUNT = 2000
AUTHORIZATION = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def ask(broker: EmberBroker, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.http_port}/api{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers=AUTHORIZATION,
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read()
        return json.loads(text) if text else None


def fill(broker: EmberBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for name in ("old", "new"):
            channel.queue_declare(name, durable=True)
        properties = pika.BasicProperties(delivery_mode=2)
        for number in range(COUNT):
            channel.basic_publish("", "old", f"{number:06}".encode() + bytes(200), properties)
        channel.confirm_delivery()
        channel.basic_publish("", "old", f"{COUNT:06}".encode(), properties)


def bodies(broker: EmberBroker, queue: str) -> list[int]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        count = channel.queue_declare(queue, durable=True, passive=True).method.message_count
        return [int(channel.basic_get(queue, auto_ack=True)[2][:6]) for _ in range(count)]


@pytest.mark.parametrize("done_before", [1, COUNT // 2])
def test_a_move_that_is_killed_loses_nothing(tmp_path: Path, done_before: int) -> None:
    with EmberBroker(tmp_path / "data") as broker:
        fill(broker)
        task = ask(broker, "POST", "/queues/%2F/old/messages/move", {"destination": "new"})
        deadline = time.monotonic() + 20
        while ask(broker, "GET", f"/tasks/{task['id']}")["done"] < done_before:
            assert time.monotonic() < deadline
        broker.kill()
        broker.restart()
        old, new = bodies(broker, "old"), bodies(broker, "new")
        assert {*old, *new} == set(range(COUNT + 1))
        assert old == sorted(old) and new == sorted(new)
        assert len(new) == len(set(new)), "what one task moves comes once"
