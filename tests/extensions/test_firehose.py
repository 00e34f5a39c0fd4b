"""The firehose: with tracing on, every publish and delivery is told to `amq.rabbitmq.trace`.

The headers are what RabbitMQ 3.10.8 was seen to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from tests.support.management import api
from tests.support.pika_client import Client, Got, eventually, unique
from tools.brokers import EmberBroker

TRACE_EXCHANGE = "amq.rabbitmq.trace"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """One for this file: tracing is for all who are there."""
    with EmberBroker() as running:
        yield running


def set_tracing(broker: EmberBroker, wanted: bool) -> None:
    api(broker, "PUT", "vhosts", "/", body={"tracing": wanted})
    assert api(broker, "GET", "vhosts", "/")["tracing"] is wanted


@pytest.fixture
def traced(broker: EmberBroker) -> Iterator[None]:
    set_tracing(broker, True)
    yield
    set_tracing(broker, False)


class Tap:
    """Reads the trace on a connection whose own messages come from the trace, which is not traced."""

    def __init__(self, client: Client, key: str = "#") -> None:
        self.client = client
        self.queue = client.declare()
        client.channel.queue_bind(self.queue, TRACE_EXCHANGE, key)

    def next(self) -> Got:
        return self.client.await_message(self.queue)

    def empty(self) -> bool:
        return self.client.get(self.queue) is None


@pytest.mark.usefixtures("traced")
def test_published_and_delivered(client: Client, connect: Callable[[], Client], broker: EmberBroker) -> None:
    tap = Tap(connect())
    queue = client.declare()
    client.channel.queue_bind(queue, "amq.direct", "rk")
    client.publish(
        "rk", b"body", exchange="amq.direct", headers={"a": 1}, delivery_mode=2, message_id="m", priority=3
    )
    told = tap.next()
    assert (told.method.exchange, told.method.routing_key) == (TRACE_EXCHANGE, "publish.amq.direct")
    assert told.body == b"body" and told.properties.delivery_mode is None
    connection = api(broker, "GET", "connections")
    names = {entry["name"] for entry in connection}
    node = api(broker, "GET", "overview")["node"]
    expected: dict[str, Any] = {
        "exchange_name": "amq.direct",
        "routing_keys": ["rk"],
        "properties": {"headers": {"a": 1}, "delivery_mode": 2, "message_id": "m", "priority": 3},
        "node": node,
        "vhost": "/",
        "channel": 1,
        "user": "guest",
    }
    headers = dict(told.headers)
    publisher = headers.pop("connection")
    assert publisher in names
    assert headers == {**expected, "routed_queues": [queue]}

    assert client.get(queue, ack=False) is not None
    told = tap.next()
    assert told.method.routing_key == f"deliver.{queue}" and told.body == b"body"
    assert told.headers == {**expected, "redelivered": 0, "connection": publisher}
    client.channel.basic_nack(0, multiple=True)
    client.channel.basic_consume(queue, lambda *_: None, auto_ack=True)
    eventually(lambda: client.connection.process_data_events(0) or client.count(queue) == 0)
    assert tap.next().headers["redelivered"] == 1
    assert tap.empty()


@pytest.mark.usefixtures("traced")
def test_copies_lost_messages_and_transactions(client: Client, connect: Callable[[], Client]) -> None:
    tap = Tap(connect(), "publish.#")
    queue = client.declare()
    client.publish(queue, headers={"CC": ["other"]})
    told = tap.next()
    assert told.method.routing_key == "publish."
    assert (told.headers["routing_keys"], told.headers["routed_queues"]) == ([queue, "other"], [queue])
    client.publish("nowhere", b"lost")
    assert tap.next().headers["routed_queues"] == []
    client.channel.tx_select()
    client.publish(queue, b"never committed")
    assert tap.next().body == b"never committed"
    client.channel.tx_rollback()


@pytest.mark.usefixtures("traced")
def test_by_http_and_topics(client: Client, connect: Callable[[], Client], broker: EmberBroker) -> None:
    everything, nothing = Tap(connect(), "*.amq.fanout"), Tap(connect(), "deliver.#")
    message = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
    api(broker, "POST", "exchanges", "/", "amq.fanout", "publish", body=message)
    assert everything.next().body == b"x"
    assert nothing.empty()


def test_switched_while_messages_flow(
    client: Client, connect: Callable[[], Client], broker: EmberBroker
) -> None:
    tap = Tap(connect())
    queue, got = client.declare(), []
    client.channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)

    def send(count: int) -> None:
        before = len(got)
        for _ in range(count):
            client.publish(queue)
        eventually(lambda: client.connection.process_data_events(0) or len(got) == before + count)

    send(5)
    set_tracing(broker, True)
    send(5)
    keys = [tap.next().method.routing_key for _ in range(10)]
    assert sorted(keys) == [f"deliver.{queue}"] * 5 + ["publish."] * 5
    set_tracing(broker, False)
    send(5)
    assert tap.empty()


def test_off_after_a_restart(broker: EmberBroker) -> None:
    set_tracing(broker, True)
    broker.restart()
    assert api(broker, "GET", "vhosts", "/")["tracing"] is False


def test_only_in_its_virtual_host(client: Client, broker: EmberBroker) -> None:
    vhost = unique("vhost")
    api(broker, "PUT", "vhosts", vhost, body={"tracing": True})
    assert api(broker, "GET", "vhosts", vhost)["tracing"] is True
    tap, queue = Tap(client), client.declare()
    client.publish(queue)
    assert tap.empty()
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, vhost)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("tap")
        channel.queue_bind("tap", TRACE_EXCHANGE, "#")
        channel.basic_publish("amq.topic", "k", b"there")
        assert eventually(lambda: channel.basic_get("tap", auto_ack=True)[2]) == b"there"
    api(broker, "DELETE", "vhosts", vhost)
