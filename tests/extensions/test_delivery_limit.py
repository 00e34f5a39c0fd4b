"""x-delivery-limit and the header x-delivery-count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.client import Client, Got, unique
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
