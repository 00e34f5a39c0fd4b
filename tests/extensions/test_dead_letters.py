"""x-dead-letter-exchange, x-dead-letter-routing-key and the history in x-death."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, Got, eventually, plain, unique

REASONS = ["rejected", "expired", "maxlen"]


def reject(client: Client, queue: str, requeue: bool = False) -> None:
    got = client.await_message(queue, ack=False)
    client.channel.basic_reject(got.method.delivery_tag, requeue=requeue)


def die(client: Client, reason: str, body: bytes = b"x", **properties: Any) -> tuple[str, Got]:
    """A message dies in a queue of its own; that queue and the letter."""
    letters = client.declare()
    limits: dict[str, Any] = {"expired": {"x_message_ttl": 0}, "maxlen": {"x_max_length": 0}}.get(reason, {})
    source = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters, **limits)
    client.publish(source, body, **properties)
    if reason == "rejected":
        reject(client, source)
    return source, client.await_message(letters)


@pytest.mark.parametrize("reason", REASONS)
def test_the_history_of_a_letter(client: Client, reason: str) -> None:
    source, letter = die(client, reason, b"body", headers={"mine": 1}, content_type="a/b", message_id="m")
    assert letter.body == b"body"
    assert (letter.properties.content_type, letter.properties.message_id) == ("a/b", "m")
    assert plain(letter.headers) == {
        "mine": 1,
        "x-first-death-reason": reason,
        "x-first-death-queue": source,
        "x-first-death-exchange": "",
        "x-death": [
            {"count": 1, "reason": reason, "queue": source, "exchange": "", "routing-keys": [source]}
        ],
    }
    assert isinstance(letter.headers["x-death"][0]["time"], datetime)


def test_header_values_keep_their_types(client: Client) -> None:
    values = {
        "text": "t",
        "number": 2**40,
        "yes": True,
        "list": [1, "two"],
        "table": {"n": None},
        "bytes": b"\0",
    }
    _, letter = die(client, "rejected", headers=dict(values))
    assert {name: letter.headers[name] for name in values} == values


def test_expiration_is_taken_off_and_noted(client: Client) -> None:
    letters = client.declare()
    source = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    client.publish(source, expiration="20")
    letter = client.await_message(letters)
    assert letter.properties.expiration is None
    assert letter.headers["x-death"][0]["original-expiration"] == "20"
    assert letter.headers["x-death"][0]["reason"] == "expired"


def test_expiration_goes_with_any_reason(client: Client) -> None:
    _, letter = die(client, "rejected", expiration="600000")
    assert letter.properties.expiration is None
    assert letter.headers["x-death"][0]["original-expiration"] == "600000"


def test_letters_keep_their_routing_key(client: Client) -> None:
    exchange, letters = unique("exchange"), client.declare()
    client.channel.exchange_declare(exchange, "direct", auto_delete=True)
    source = client.declare(x_dead_letter_exchange=exchange)
    client.channel.queue_bind(letters, exchange, routing_key=source)
    client.publish(source)
    reject(client, source)
    letter = client.await_message(letters)
    assert (letter.method.exchange, letter.method.routing_key) == (exchange, source)


def test_exchange_and_keys_of_the_first_publish(client: Client) -> None:
    exchange, letters = unique("exchange"), client.declare()
    client.channel.exchange_declare(exchange, "topic", auto_delete=True)
    source = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    client.channel.queue_bind(source, exchange, routing_key="a.*")
    client.publish("a.b", exchange=exchange)
    reject(client, source)
    letter = client.await_message(letters)
    death = letter.headers["x-death"][0]
    assert (death["exchange"], death["routing-keys"]) == (exchange, ["a.b"])
    assert letter.headers["x-first-death-exchange"] == exchange
    assert letter.method.routing_key == letters


def test_two_queues_newest_first(client: Client, target: str) -> None:
    letters = client.declare()
    second = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    first = client.declare(x_message_ttl=0, x_dead_letter_exchange="", x_dead_letter_routing_key=second)
    client.publish(first)
    reject(client, second)
    letter = client.await_message(letters)
    deaths = [(death["queue"], death["reason"], death["count"]) for death in letter.headers["x-death"]]
    assert deaths == [(second, "rejected", 1), (first, "expired", 1)]
    assert letter.headers["x-first-death-queue"] == first
    if target == "embermq":  # RabbitMQ does since 4.0
        assert letter.headers["x-last-death-queue"] == second
        assert letter.headers["x-last-death-reason"] == "rejected"


def test_the_second_time_is_counted(client: Client) -> None:
    """The usual retry: rejected into a queue whose time to live brings it back."""
    work, waiting = unique(), unique()
    client.declare(work, x_dead_letter_exchange="", x_dead_letter_routing_key=waiting)
    client.declare(waiting, x_message_ttl=5, x_dead_letter_exchange="", x_dead_letter_routing_key=work)
    client.publish(work)
    for _ in range(3):
        reject(client, work)
    got = client.await_message(work)
    deaths = [(death["queue"], death["reason"], death["count"]) for death in got.headers["x-death"]]
    assert deaths == [(waiting, "expired", 3), (work, "rejected", 3)]


@pytest.mark.parametrize("limit", [{"x_message_ttl": 0}, {"x_max_length": 0}])
def test_a_cycle_without_a_rejection_ends(client: Client, limit: dict[str, Any]) -> None:
    one, two, witness = unique(), unique(), client.declare(x_message_ttl=100)
    client.declare(one, x_dead_letter_exchange="", x_dead_letter_routing_key=two, **limit)
    client.declare(two, x_dead_letter_exchange="", x_dead_letter_routing_key=one, **limit)
    client.publish(one)
    client.publish(witness)
    eventually(lambda: client.count(witness) == 0)
    assert client.count(one) == client.count(two) == 0


def test_back_to_the_same_queue_when_rejected(client: Client) -> None:
    queue = unique()
    client.declare(queue, x_dead_letter_exchange="")
    client.publish(queue, b"again")
    reject(client, queue)
    reject(client, queue)
    got = client.await_message(queue)
    assert got.headers["x-death"][0]["count"] == 2


def test_a_long_chain(client: Client) -> None:
    """A message that dies everywhere at once on its way through many queues."""
    letters = client.declare()
    following = letters
    for _ in range(150):
        following = client.declare(
            x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key=following
        )
    client.publish(following)
    assert len(client.await_message(letters).headers["x-death"]) == 150


def test_no_such_exchange_no_letter(client: Client) -> None:
    queue = client.declare(x_dead_letter_exchange=unique("exchange"))
    client.publish(queue)
    reject(client, queue)
    assert client.count(queue) == 0


def test_requeued_is_not_dead(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    client.publish(queue)
    reject(client, queue, requeue=True)
    eventually(lambda: client.count(queue) == 1)
    assert client.count(letters) == 0


def test_nack_of_many(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    for number in range(5):
        client.publish(queue, b"%d" % number)
    last = [client.await_message(queue, ack=False) for _ in range(5)][-1]
    client.channel.basic_nack(last.method.delivery_tag, multiple=True, requeue=False)
    eventually(lambda: client.count(letters) == 5)
    assert client.drain(letters) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_rejection_in_a_transaction(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    client.publish(queue)
    client.channel.tx_select()
    reject(client, queue)
    client.channel.tx_rollback()
    assert client.count(letters) == 0
    client.channel.tx_commit()
    client.channel.basic_nack(0, multiple=True, requeue=False)
    client.channel.tx_commit()
    eventually(lambda: client.count(letters) == 1)


def test_refused_messages_as_letters(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=letters,
    )
    client.channel.confirm_delivery()
    client.publish(queue, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        client.publish(queue, b"does not fit")
    letter = client.await_message(letters)
    assert letter.body == b"does not fit"
    assert letter.headers["x-death"][0]["reason"] == "maxlen"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_letters_survive(start_broker: Callable[..., Any], end: str) -> None:
    broker = start_broker()
    source, letters = unique(), unique()
    with Client(broker.port) as client:
        client.declare(letters, durable=True)
        client.declare(source, durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
        client.channel.confirm_delivery()
        for number in range(100):
            client.publish(source, b"%d" % number, delivery_mode=2)
        for _ in range(50):
            reject(client, source)
        eventually(lambda: client.count(letters) == 50)
    getattr(broker, end)()
    broker.start()
    with Client(broker.port) as client:
        found = client.drain(letters) + client.drain(source)
        assert {int(body) for body in found} == set(range(100)), "a letter was lost"
        if end == "stop":
            assert len(found) == 100
