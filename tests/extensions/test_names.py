"""Names, headers and properties that no broker can write again: refused, or harmless to everybody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.support.management import Management, managed_broker
from tests.support.pika_client import Client, unique
from tools.brokers import Broker

TOO_LONG = "x" * 256
LAST_SECOND = 2**64 - 1


@pytest.fixture(scope="module")
def managed(target: str) -> Iterator[Broker]:
    if target == "rabbitmq":
        pytest.skip("RabbitMQ takes such names, and what becomes of them depends")
    with managed_broker(target) as broker:
        yield broker


@pytest.fixture
def client(managed: Broker) -> Iterator[Client]:
    with Client(managed.port) as client:
        yield client


@pytest.fixture
def management(managed: Broker) -> Management:
    return Management(managed)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x_dead_letter_exchange": TOO_LONG},
        {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": TOO_LONG},
        {"x_namespace": TOO_LONG},
        {"x_namespace": "n" * 250},  # too long with the name behind it
        {"x_template": TOO_LONG},
    ],
    ids=["exchange", "key", "namespace", "with namespace", "template"],
)
def test_a_declaration_is_refused(client: Client, management: Management, arguments: dict[str, Any]) -> None:
    name = unique()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        client.declare(name, **arguments)
    assert closed.value.reply_code == 406
    assert not any(name in queue["name"] for queue in management.get("queues"))
    assert client.connection.is_open


def test_http_refuses_them_as_well(management: Management) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": TOO_LONG}
    policy = {"pattern": "^nothing$", "definition": {"dead-letter-routing-key": TOO_LONG}}
    binding = {
        "source": "amq.direct",
        "vhost": "/",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": TOO_LONG,
        "arguments": {},
    }
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    for method, path, body in (
        ("PUT", "queues/%2F/q", {"arguments": arguments}),
        ("PUT", "exchanges/%2F/x", {"type": "direct", "arguments": {"alternate-exchange": TOO_LONG}}),
        ("PUT", "policies/%2F/p", policy),
        ("PUT", "policies/%2F/p", {**policy, "definition": {"alternate-exchange": TOO_LONG}}),
        ("POST", "definitions", {"queues": [{**queue, "name": TOO_LONG}]}),
        ("POST", "definitions", {"queues": [{**queue, "arguments": arguments}]}),
        ("POST", "definitions", {"queues": [queue], "bindings": [binding]}),
    ):
        assert management.ask(method, path, body)[0] == 400, (path, body)
    assert management.get("policies") == []


def test_a_forged_history_goes_its_way(client: Client, management: Management) -> None:
    """And what cannot be sent back by it stays, when all others are."""
    letters = client.declare()
    home = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    death = {
        "queue": home,
        "reason": "rejected",
        "count": 2**63 - 1,
        "exchange": TOO_LONG,
        "routing-keys": [],
    }
    for body in (b"forged", b"honest"):
        client.publish(home, body, headers={"x-death": [death]} if body == b"forged" else None)
        got = client.await_message(home, ack=False)
        client.channel.basic_reject(got.method.delivery_tag, requeue=False)
    client.publish(letters, b"forged too", headers={"x-death": [death]})
    status, task = management.ask("POST", f"queues/%2F/{letters}/messages/return", {})
    assert status < 300, task
    assert client.await_message(home).body == b"honest"
    assert client.await_message(letters).headers["x-death"][0]["count"] == 2**63 - 1
    assert client.await_message(letters).body == b"forged too"


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"deeper": value}
    return value


def set_tracing(management: Management, wanted: bool) -> None:
    assert management.ask("PUT", "vhosts/%2F", {"tracing": wanted})[0] < 300


@pytest.mark.parametrize(
    "properties", [{"timestamp": LAST_SECOND}, {"headers": nested(64)}], ids=["time", "depth"]
)
def test_whatever_is_traced_the_connection_stays(
    client: Client, managed: Broker, management: Management, properties: dict[str, Any]
) -> None:
    queue, trace = client.declare(), client.declare()
    client.channel.queue_bind(trace, "amq.rabbitmq.trace", "#")
    set_tracing(management, True)
    try:
        with Client(managed.port) as publisher:
            publisher.channel.confirm_delivery()
            publisher.publish(queue, b"traced", **properties)
            assert publisher.connection.is_open
        assert client.channel.queue_declare(queue, passive=True).method.message_count == 1
        assert client.channel.queue_declare(trace, passive=True).method.message_count == 1
    finally:
        set_tracing(management, False)
    for name in (queue, trace):
        client.channel.queue_delete(name)
