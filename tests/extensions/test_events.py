"""The event exchange: what happens in the broker comes as messages from `amq.rabbitmq.event`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest

from tests.support.management import api
from tests.support.pika_client import Client, Got, eventually, unique
from tools.brokers import EmberBroker

EVENT_EXCHANGE = "amq.rabbitmq.event"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """One for this file: events of other tests are not ours."""
    with EmberBroker() as running:
        yield running


class Listener:
    def __init__(self, client: Client, key: str = "#") -> None:
        self.client = client
        self.queue = client.declare()
        client.channel.queue_bind(self.queue, EVENT_EXCHANGE, key)
        self.heard: list[Got] = []

    def await_event(self, key: str, **properties: Any) -> dict[str, Any]:
        """The headers of the first event like this."""

        def found() -> dict[str, Any] | None:
            while (got := self.client.get(self.queue)) is not None:
                self.heard.append(got)
            for got in self.heard:
                wanted = properties.items() <= got.headers.items()
                if got.method.routing_key == key and wanted:
                    return got.headers
            return None

        headers: dict[str, Any] = eventually(found)
        return headers


@pytest.fixture
def listener(client: Client) -> Iterator[Listener]:
    listener = Listener(client)
    yield listener
    client.channel.queue_delete(listener.queue)


def test_topology(listener: Listener, connect: Callable[[], Client]) -> None:
    other = connect()
    queue, exchange = unique(), unique("exchange")
    other.channel.queue_declare(queue, arguments={"x-max-length": 5})
    other.channel.exchange_declare(exchange, "topic")
    other.channel.queue_bind(queue, exchange, "a.*", {"why": "test"})
    other.channel.exchange_bind("amq.fanout", exchange, "e2e")
    other.channel.queue_unbind(queue, exchange, "a.*", {"why": "test"})
    other.channel.exchange_delete(exchange)
    other.channel.queue_delete(queue)

    created = listener.await_event("queue.created", name=queue)
    assert created.pop("timestamp_in_ms") > 1_700_000_000_000
    assert created == {
        "name": queue,
        "vhost": "/",
        "durable": False,
        "auto_delete": False,
        "exclusive": False,
        "arguments": {"x-max-length": 5},
        "user_who_performed_action": "guest",
    }
    assert listener.await_event("exchange.created", name=exchange)["type"] == "topic"
    bound = listener.await_event("binding.created", source_name=exchange, destination_name=queue)
    assert (bound["routing_key"], bound["arguments"]) == ("a.*", {"why": "test"})
    listener.await_event("binding.created", destination_name="amq.fanout", destination_kind="exchange")
    listener.await_event("binding.deleted", source_name=exchange, destination_name=queue)
    listener.await_event("binding.deleted", source_name=exchange, destination_name="amq.fanout")
    listener.await_event("exchange.deleted", name=exchange, vhost="/")
    listener.await_event("queue.deleted", name=queue, vhost="/")


def test_sessions(listener: Listener, broker: EmberBroker) -> None:
    queue = listener.client.declare()
    with Client(broker.port) as other:
        tag = other.channel.basic_consume(queue, lambda *_: None, arguments={"x-priority": 3})
        other.channel.basic_cancel(tag)
    connection = listener.await_event("connection.created")
    assert connection["client_properties"]["product"] == "Pika Python Client Library"
    assert (connection["user"], connection["vhost"], connection["peer_host"]) == ("guest", "/", "127.0.0.1")
    name = connection["name"]
    listener.await_event("user.authentication.success", connection_name=name, name="guest")
    channel = listener.await_event("channel.created", connection=name, number=1)
    consumer = listener.await_event("consumer.created", consumer_tag=tag, channel=channel["name"])
    assert (consumer["queue"], consumer["ack_required"]) == (queue, True)
    assert consumer["arguments"] == {"x-priority": 3}
    listener.await_event("consumer.deleted", consumer_tag=tag, queue=queue)
    listener.await_event("channel.closed", name=channel["name"], user_who_performed_action="guest")
    listener.await_event("connection.closed", name=name)
    closed = [
        got for got in listener.heard if got.method.routing_key in ("channel.closed", "connection.closed")
    ]
    assert len(closed) == 2, "each once"


def test_consumers_of_a_lost_connection_and_a_deleted_queue(listener: Listener, broker: EmberBroker) -> None:
    first, second = listener.client.declare(), listener.client.declare()
    with Client(broker.port) as other:
        doomed = other.channel.basic_consume(first, lambda *_: None)
        listener.client.channel.queue_delete(first)
        listener.await_event("consumer.deleted", consumer_tag=doomed)
        left = other.channel.basic_consume(second, lambda *_: None)
    listener.await_event("consumer.deleted", consumer_tag=left)


def test_refused_login(listener: Listener, broker: EmberBroker) -> None:
    wrong = pika.PlainCredentials("guest", "wrong")
    with suppress(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, credentials=wrong))
    failure = listener.await_event("user.authentication.failure", name="guest")
    assert failure["error"] == "user 'guest' - invalid credentials"


def test_administration(listener: Listener, broker: EmberBroker) -> None:
    vhost, user = unique("vhost"), unique("user")
    api(broker, "PUT", "vhosts", vhost, body={"description": "for events"})
    api(broker, "PUT", "users", user, body={"password": "first", "tags": "monitoring"})
    api(broker, "PUT", "users", user, body={"password": "second", "tags": "management"})
    api(broker, "PUT", "permissions", vhost, user, body={"configure": "a", "write": "b", "read": "c"})
    api(broker, "DELETE", "permissions", vhost, user)
    api(broker, "DELETE", "users", user)
    api(broker, "DELETE", "vhosts", vhost)
    listener.await_event("vhost.created", name=vhost, user_who_performed_action="guest")
    listener.await_event("user.created", name=user)
    listener.await_event("user.tags.set", name=user, tags=["monitoring"])
    listener.await_event("user.password.changed", name=user)
    listener.await_event("user.tags.set", name=user, tags=["management"])
    listener.await_event("permission.created", user=user, vhost=vhost, configure="a", write="b", read="c")
    listener.await_event("permission.deleted", user=user, vhost=vhost)
    listener.await_event("user.deleted", name=user)
    listener.await_event("vhost.deleted", name=vhost)


def test_keys_are_topics(client: Client) -> None:
    listener = Listener(client, "queue.*")
    queue = client.declare()
    client.channel.queue_delete(queue)
    listener.await_event("queue.deleted", name=queue)
    # Its own creation was before the binding.
    assert [got.method.routing_key for got in listener.heard] == ["queue.created", "queue.deleted"]
    event = listener.heard[0]
    assert event.body == b"" and event.properties.delivery_mode == 2
    assert event.properties.timestamp == event.headers["timestamp_in_ms"] // 1000
    assert event.method.exchange == EVENT_EXCHANGE
    client.channel.queue_delete(listener.queue)


def test_the_exchange_is_the_brokers_own(connect: Callable[[], Client]) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connect().channel.exchange_delete(EVENT_EXCHANGE)
    publisher = connect()
    publisher.publish("queue.created", exchange=EVENT_EXCHANGE)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        publisher.channel.queue_declare(unique())


def test_bindings_survive_a_restart(broker: EmberBroker) -> None:
    queue = unique()
    with Client(broker.port) as client:
        client.declare(queue, durable=True)
        client.channel.queue_bind(queue, EVENT_EXCHANGE, "exchange.*")
        client.channel.exchange_declare(unique("exchange"), "fanout")
        before = client.count(queue)
    broker.restart()
    with Client(broker.port) as client:
        assert client.count(queue) == before == 1
        client.channel.exchange_declare(unique("exchange"), "fanout")
        assert client.count(queue) == 2
        client.channel.queue_delete(queue)
