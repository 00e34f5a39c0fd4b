"""Letters that are not lost: those of deleted queues, and those that nobody takes (at-least-once)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embermq.broker.dead_letter.at_least_once import IN_MEMORY_MAX
from tests.support.management import Management
from tests.support.pika_client import Client, eventually, in_time, unique
from tools.brokers import Broker, EmberBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with EmberBroker() as running:  # RabbitMQ loses all of these but the at-least-once letters
        yield running


def with_letters(client: Client, durable: bool = False, **arguments: Any) -> tuple[str, str]:
    """A queue, and the one where its letters go."""
    letters = client.declare(durable=durable)
    queue = client.declare(
        durable=durable, x_dead_letter_exchange="", x_dead_letter_routing_key=letters, **arguments
    )
    return queue, letters


def fill(client: Client, queue: str, count: int) -> None:
    for number in range(count):
        client.publish(queue, b"%d" % number, delivery_mode=2)


def test_a_deleted_queue(client: Client) -> None:
    queue, letters = with_letters(client)
    fill(client, queue, 3)
    assert client.channel.queue_delete(queue).method.message_count == 3
    got = client.await_message(letters)
    death = got.headers["x-death"][0]
    assert (got.body, death["reason"], death["queue"]) == (b"0", "deleted", queue)
    assert client.drain(letters) == [b"1", b"2"]


def test_what_consumers_had_of_it(client: Client, connect: Callable[[], Client]) -> None:
    queue, letters = with_letters(client)
    fill(client, queue, 2)
    other = connect()
    for _ in range(2):
        other.await_message(queue, ack=False)
    client.channel.queue_delete(queue)
    assert client.count(letters) == 0
    other.connection.close()
    eventually(lambda: client.count(letters) == 2)


def test_a_queue_that_nobody_used(client: Client) -> None:
    letters = ""

    def publish_before_it_expires(expires_ms: int) -> None:
        nonlocal letters
        queue, letters = with_letters(client, x_expires=expires_ms)
        client.publish(queue, b"forgotten")
        client.count(letters)  # the broker has it

    in_time(publish_before_it_expires)
    assert client.await_message(letters).headers["x-first-death-reason"] == "deleted"


def test_a_long_one_goes_in_steps(client: Client) -> None:
    queue, letters = with_letters(client, durable=True)
    fill(client, queue, 12_000)
    client.channel.queue_delete(queue)
    client.declare(queue)  # the name is free at once
    eventually(lambda: client.count(letters) == 12_000)
    assert [client.await_message(letters).body for _ in range(3)] == [b"0", b"1", b"2"]


def test_without_an_exchange_they_are_gone(client: Client) -> None:
    queue = client.declare()
    fill(client, queue, 2)
    assert client.channel.queue_delete(queue).method.message_count == 2


def kept_until_taken(client: Client, **arguments: Any) -> tuple[str, str]:
    """A queue with a letter that a full queue has refused."""
    letters = client.declare(durable=True, x_max_length=1, x_overflow="reject-publish")
    queue = client.declare(
        durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key=letters, **arguments
    )
    fill(client, queue, 2)
    for _ in range(2):
        got = client.await_message(queue, ack=False)
        client.channel.basic_reject(got.method.delivery_tag, requeue=False)
    return queue, letters


def test_a_refused_letter_is_tried_again(client: Client, broker: Broker) -> None:
    queue, letters = kept_until_taken(client, x_dead_letter_strategy="at-least-once")
    assert Management(broker).queue(queue)["messages_dlx"] == 1
    assert client.await_message(letters).body == b"0"
    got = client.await_message(letters)
    assert got.body == b"1" and got.headers["x-death"][0]["count"] == 1
    assert Management(broker).queue(queue)["messages_dlx"] == 0


def test_at_most_once_it_is_lost(client: Client, broker: Broker) -> None:
    queue, letters = kept_until_taken(client)
    assert Management(broker).queue(queue)["messages_dlx"] == 0
    assert client.drain(letters) == [b"0"]


def test_with_a_head_that_is_dropped_it_is_lost(client: Client, broker: Broker) -> None:
    queue, _ = kept_until_taken(client, x_dead_letter_strategy="at-least-once", x_max_length=10)
    assert Management(broker).queue(queue)["messages_dlx"] == 0


def test_a_letter_waits_for_its_exchange(client: Client) -> None:
    exchange, letters = unique("exchange"), client.declare()
    queue = client.declare(
        x_message_ttl=1, x_dead_letter_exchange=exchange, x_dead_letter_strategy="at-least-once"
    )
    client.publish(queue, b"early")
    eventually(lambda: client.count(queue) == 0)
    client.channel.exchange_declare(exchange, "fanout")
    client.channel.queue_bind(letters, exchange)
    assert client.await_message(letters).body == b"early"
    client.channel.exchange_delete(exchange)


def test_many_wait_on_disk(client: Client, broker: Broker) -> None:
    """More than are kept in memory; a few of them are taken by one queue of two."""
    exchange, letters, full = (
        unique("exchange"),
        client.declare(),
        client.declare(x_max_length=0, x_overflow="reject-publish"),
    )
    client.channel.exchange_declare(exchange, "fanout")
    queue = client.declare(
        durable=True, x_message_ttl=1, x_dead_letter_exchange=exchange, x_dead_letter_strategy="at-least-once"
    )
    count = IN_MEMORY_MAX + 700
    fill(client, queue, count)
    eventually(lambda: Management(broker).queue(queue)["messages_dlx"] == count)
    for name in (letters, full):
        client.channel.queue_bind(name, exchange)
    eventually(lambda: client.count(letters) == count)
    assert Management(broker).queue(queue)["messages_dlx"] == count  # the other queue has none
    client.channel.queue_unbind(full, exchange)
    eventually(lambda: Management(broker).queue(queue)["messages_dlx"] == 0)
    assert sorted(map(int, client.drain(letters))) == list(range(count))
    client.channel.exchange_delete(exchange)


def test_only_who_refused_is_asked_again(client: Client) -> None:
    exchange, roomy = unique("exchange"), client.declare()
    full = client.declare(x_max_length=0, x_overflow="reject-publish")
    client.channel.exchange_declare(exchange, "fanout")
    for name in (roomy, full):
        client.channel.queue_bind(name, exchange)
    queue = client.declare(
        x_message_ttl=1, x_dead_letter_exchange=exchange, x_dead_letter_strategy="at-least-once"
    )
    client.publish(queue, b"once")
    assert client.await_message(roomy).body == b"once"
    client.channel.queue_delete(full)
    another = client.declare()
    client.channel.queue_bind(another, exchange)
    assert client.await_message(another).body == b"once"  # still tried, and this one had not taken it
    assert client.count(roomy) == 0
    client.channel.exchange_delete(exchange)


def test_a_crash_brings_it_back() -> None:
    with EmberBroker() as broker:
        with Client(broker.port) as client:
            queue, letters = kept_until_taken(client, x_dead_letter_strategy="at-least-once")
            client.channel.confirm_delivery()
            client.publish(queue, b"last", delivery_mode=2)
        broker.kill()
        broker.start()
        with Client(broker.port) as client:
            assert client.drain(letters) == [b"0"]
            assert sorted(client.drain(queue)) == [b"1", b"last"]
