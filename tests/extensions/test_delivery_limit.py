"""x-delivery-limit and the header x-delivery-count."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.management import api, managed_broker
from tests.support.pika_client import Client, Got, eventually, unique
from tools.brokers import EmberBroker


@pytest.fixture
def limited(client: Client, target: str) -> str:
    """A queue whose messages may come back twice; their letters are in `<name>.letters`."""
    name = unique()
    client.declare(f"{name}.letters")
    arguments: dict[str, Any] = {"x_queue_type": "quorum"} if target == "rabbitmq" else {}
    return client.declare(
        name,
        durable=True,
        x_delivery_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=f"{name}.letters",
        **arguments,
    )


def give_back(client: Client, queue: str) -> Got:
    got = client.await_message(queue, ack=False)
    client.channel.basic_nack(got.method.delivery_tag, requeue=True)
    return got


def test_after_the_limit_it_is_a_dead_letter(client: Client, limited: str) -> None:
    client.publish(limited, b"poison", headers={"mine": 1})
    # RabbitMQ writes the 0, too.
    counts = [give_back(client, limited).headers.get("x-delivery-count", 0) for _ in range(3)]
    assert counts == [0, 1, 2]
    letter = client.await_message(f"{limited}.letters")
    assert letter.body == b"poison"
    assert letter.headers["mine"] == 1
    assert letter.headers["x-death"][0]["reason"] == "delivery_limit"
    assert client.count(limited) == 0
    client.channel.queue_delete(limited)


def test_a_closed_channel_counts(client: Client, limited: str) -> None:
    client.publish(limited)
    for _ in range(3):
        channel = client.connection.channel()
        assert channel.basic_get(limited)[0] is not None
        channel.close()
    assert client.await_message(f"{limited}.letters").headers["x-death"][0]["reason"] == "delivery_limit"
    client.channel.queue_delete(limited)


BACKLOG = 5


def fetch_all(client: Client, queue: str) -> None:
    """A consumer is sent the whole backlog, and acknowledges none of it."""
    fetched: list[bytes] = []
    client.channel.basic_qos(prefetch_count=100)
    client.channel.basic_consume(queue, lambda *got: fetched.append(got[3]), consumer_tag="fetcher")

    def has_all() -> bool:
        client.connection.process_data_events(0.01)
        return len(fetched) == BACKLOG

    eventually(has_all)


def close_channel(client: Client) -> None:
    client.channel.close()


def close_connection(client: Client) -> None:
    client.connection.close()


def cancel_and_nack(client: Client) -> None:
    """As aio-pika's queue iterator does."""
    client.channel.basic_cancel("fetcher")
    client.channel.basic_nack(0, multiple=True, requeue=True)


def lose_connection(client: Client) -> None:
    client.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        while True:  # until pika has noticed, and has closed its sockets
            client.connection.process_data_events(1)


@pytest.mark.parametrize("leave", [close_channel, close_connection, cancel_and_nack])
def test_what_a_client_leaves_untouched_does_not_count(
    client: Client, connect: Callable[[], Client], target: str, limited: str, leave: Callable[[Client], None]
) -> None:
    """However often it comes back with a client that ends its work in order."""
    if target == "rabbitmq":
        pytest.xfail("RabbitMQ counts what a closed channel had, up to 4.2 whatever comes back")
    for number in range(BACKLOG):
        client.publish(limited, b"%d" % number)
    for _ in range(10):
        other = connect()
        fetch_all(other, limited)
        leave(other)
        other.leave()
    for number in range(BACKLOG):
        got = client.await_message(limited)
        assert got.body == b"%d" % number
        assert got.method.redelivered
        assert "x-delivery-count" not in got.headers
    client.channel.queue_delete(limited)


def test_a_lost_connection_counts(client: Client, connect: Callable[[], Client], limited: str) -> None:
    """A message that takes its consumers down is a dead letter in the end."""
    for number in range(BACKLOG):
        client.publish(limited, b"%d" % number)
    for _ in range(3):
        other = connect()
        fetch_all(other, limited)
        lose_connection(other)
    for number in range(BACKLOG):
        letter = client.await_message(f"{limited}.letters")
        assert letter.body == b"%d" % number
        assert letter.headers["x-death"][0]["reason"] == "delivery_limit"
    client.channel.queue_delete(limited)


def test_looking_at_messages_by_http_does_not_count(target: str) -> None:
    if target == "rabbitmq":
        pytest.skip("RabbitMQ counts it")
    with managed_broker(target) as broker, Client(broker.port) as client:
        queue = client.declare(durable=True, x_queue_type="quorum", x_delivery_limit=2)
        client.publish(queue, b"still there")
        for _ in range(5):
            body = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}
            assert len(api(broker, "POST", "queues", "/", queue, "get", body=body)) == 1
        assert client.await_message(queue).body == b"still there"
        client.publish(queue, b"rejected")
        for _ in range(3):
            body = {"count": 10, "ackmode": "reject_requeue_true", "encoding": "auto"}
            assert len(api(broker, "POST", "queues", "/", queue, "get", body=body)) == 1
        assert client.count(queue) == 0


def test_others_are_not_disturbed(client: Client, limited: str) -> None:
    client.publish(limited, b"poison")
    client.publish(limited, b"good")
    for _ in range(3):
        assert give_back(client, limited).body == b"poison"
    assert client.await_message(limited).body == b"good"
    client.channel.queue_delete(limited)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_with_dead_letters_there_is_a_limit_of_twenty(client: Client, target: str, kind: str) -> None:
    if target == "rabbitmq":
        pytest.xfail("RabbitMQ has that limit since 4.0, and for quorum queues only")
    letters = client.declare()
    queue = client.declare(
        durable=True, x_queue_type=kind, x_dead_letter_exchange="", x_dead_letter_routing_key=letters
    )
    client.publish(queue)
    for _ in range(21):
        give_back(client, queue)
    assert client.await_message(letters).headers["x-delivery-count"] == 21
    client.channel.queue_delete(queue)


@pytest.mark.parametrize(
    "arguments",
    [
        {"durable": True},  # without dead letters they would be lost
        {"x_dead_letter_exchange": ""},  # not durable
        {"durable": True, "x_dead_letter_exchange": "", "x_delivery_limit": -1},
    ],
)
def test_others_come_back_for_ever(client: Client, target: str, arguments: dict[str, Any]) -> None:
    if target == "rabbitmq" and "x_delivery_limit" in arguments:
        pytest.skip("RabbitMQ has that argument for quorum queues only")
    queue = client.declare(**arguments)
    client.publish(queue)
    for _ in range(30):
        give_back(client, queue)
    assert client.await_message(queue).method.redelivered
    client.channel.queue_delete(queue)


def test_the_default_can_be_changed_and_switched_off(target: str) -> None:
    if target == "rabbitmq":
        pytest.skip("a setting of EmberMQ's")
    for limit, returns in ((3, 4), (0, 30)):
        with EmberBroker(default_delivery_limit=limit) as broker, Client(broker.port) as client:
            queue = client.declare(
                durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="letters"
            )
            client.declare("letters")
            client.publish(queue)
            for _ in range(returns):
                give_back(client, queue)
            assert (client.count(queue), client.count("letters")) == ((0, 1) if limit else (1, 0))
