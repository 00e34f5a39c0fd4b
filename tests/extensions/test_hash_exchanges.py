"""Exchange types that share messages out: x-consistent-hash, x-modulus-hash, x-random, x-local-random.

What was seen of RabbitMQ 3.10.8 with its plugins is asserted here: texts, and which declarations pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.management import api
from tests.support.pika_client import Client, eventually, unique
from tools.brokers import EmberBroker

TYPES = ["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"]
COUNT = 400


def bound(client: Client, type: str, *keys: str, **arguments: Any) -> tuple[str, list[str]]:
    """An exchange with a queue for each binding key."""
    exchange, queues = unique("exchange"), [client.declare() for _ in keys]
    client.channel.exchange_declare(
        exchange, type, arguments={name.replace("_", "-"): value for name, value in arguments.items()}
    )
    for queue, key in zip(queues, keys, strict=True):
        client.channel.queue_bind(queue, exchange, key)
    return exchange, queues


def send(client: Client, exchange: str, count: int = COUNT) -> None:
    for number in range(count):
        client.publish(f"key.{number}", str(number).encode(), exchange=exchange)


def shares(client: Client, queues: list[str], total: int = COUNT) -> list[int]:
    return eventually(lambda: (found := [client.count(q) for q in queues]) and sum(found) == total and found)


def placed(client: Client, queues: list[str]) -> dict[bytes, int]:
    """Which message is in which queue; they are taken out."""
    return {body: place for place, queue in enumerate(queues) for body in client.drain(queue)}


@pytest.mark.parametrize("type", TYPES)
def test_each_message_to_one_queue_and_all_get_some(client: Client, type: str) -> None:
    keys = ("1", "1", "1") if type != "x-local-random" else ("", "", "")
    exchange, queues = bound(client, type, *keys)
    send(client, exchange)
    assert min(shares(client, queues)) > COUNT // 8


@pytest.mark.parametrize("type", ["x-consistent-hash", "x-modulus-hash"])
def test_the_same_key_to_the_same_queue(client: Client, type: str) -> None:
    exchange, queues = bound(client, type, "1", "1", "1")
    for _ in range(50):
        client.publish("always this", exchange=exchange)
    assert sorted(shares(client, queues, 50)) == [0, 0, 50]


def test_chance_is_asked_for_each_message(client: Client) -> None:
    exchange, queues = bound(client, "x-random", "a", "b")
    for _ in range(100):
        client.publish("the same key", exchange=exchange)
    assert min(shares(client, queues, 100)) > 10


def test_weights(client: Client) -> None:
    exchange, queues = bound(client, "x-consistent-hash", "1", "3")
    send(client, exchange)
    light, heavy = shares(client, queues)
    assert 2 < heavy / light < 4.5


def test_growth_moves_only_what_the_new_queue_gets(client: Client) -> None:
    exchange, queues = bound(client, "x-consistent-hash", "2", "2", "2")
    send(client, exchange)
    shares(client, queues)
    before = placed(client, queues)
    queues.append(client.declare())
    client.channel.queue_bind(queues[-1], exchange, "2")
    send(client, exchange)
    shares(client, queues)
    after = placed(client, queues)
    assert {after[body] for body in before if after[body] != before[body]} == {3}
    client.channel.queue_delete(queues.pop(0))
    send(client, exchange)
    shares(client, queues)
    last = placed(client, queues)
    assert all(last[body] == after[body] - 1 for body in after if after[body] != 0)


@pytest.mark.parametrize(
    ("argument", "properties"),
    [
        ({"hash_header": "customer"}, lambda n: {"headers": {"customer": f"c{n}"}}),
        ({"hash_header": "customer"}, lambda n: {"headers": {"customer": n}}),
        ({"hash_property": "message_id"}, lambda n: {"message_id": f"m{n}"}),
        ({"hash_property": "correlation_id"}, lambda n: {"correlation_id": f"m{n}"}),
        ({"hash_property": "timestamp"}, lambda n: {"timestamp": n}),
    ],
)
def test_hashing_something_else_than_the_key(
    client: Client, argument: dict[str, str], properties: Callable[[int], dict[str, Any]]
) -> None:
    exchange, queues = bound(client, "x-consistent-hash", "1", "1", **argument)
    for number in range(100):
        client.publish("same key", str(number % 50).encode(), exchange=exchange, **properties(number % 50))
    assert min(shares(client, queues, 100)) > 10
    halves = [client.drain(queue) for queue in queues]
    assert not set(halves[0]) & set(halves[1]), "equal values belong together"
    send(client, exchange, 20)
    assert sorted(shares(client, queues, 20)) == [0, 20], "and so do messages without the value"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("heavy", 'The binding key must be an integer: <<"heavy">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_weights_that_are_none(client: Client, key: str, text: str) -> None:
    exchange, queues = bound(client, "x-consistent-hash", "+1")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.queue_bind(queues[0], exchange, key)
    assert refusal.value.args == (406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 5}, "invalid type 'signedint' for arg 'hash-header' in exchange 'ext.refused'"),
    ],
)
def test_arguments_that_are_refused(client: Client, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.exchange_declare("ext.refused", "x-consistent-hash", arguments=arguments)
    assert refusal.value.args[0] == 406 and refusal.value.args[1].startswith(f"PRECONDITION_FAILED - {text}")


def test_local_random_binds_queues_without_a_key(connect: Callable[[], Client]) -> None:
    client = connect()
    exchange, queues = bound(client, "x-local-random", "")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="Non empty binding 'key' key not"):
        client.channel.queue_bind(queues[0], exchange, "key")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="Destination not found"):
        connect().channel.exchange_bind("amq.fanout", exchange)
    other = connect()
    quorum = other.declare(durable=True, x_queue_type="quorum")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="Queue type rabbit_quorum_queue not"):
        other.channel.queue_bind(quorum, exchange, "")


@pytest.mark.parametrize("type", ["x-consistent-hash", "x-modulus-hash", "x-random"])
def test_exchanges_as_destinations(client: Client, type: str) -> None:
    exchange, queues = bound(client, type, "1")
    behind = unique("exchange")
    client.channel.exchange_declare(behind, "headers")
    client.channel.exchange_bind(behind, exchange, "1")
    queues.append(client.declare())
    client.channel.queue_bind(queues[1], behind, arguments={"x-match": "all", "kind": "wanted"})
    for number in range(100):
        client.publish(f"k{number}", exchange=exchange, headers={"kind": "wanted"})
    assert min(shares(client, queues, 100)) > 10


@pytest.mark.parametrize("type", TYPES)
def test_without_bindings_to_the_alternate(client: Client, type: str) -> None:
    rest = client.declare()
    alternate = unique("exchange")
    client.channel.exchange_declare(alternate, "fanout")
    client.channel.queue_bind(rest, alternate)
    exchange, _ = bound(client, type, alternate_exchange=alternate)
    client.publish("k", b"saved", exchange=exchange)
    assert client.await_message(rest).body == b"saved"


def test_listed_in_the_overview(broker: EmberBroker) -> None:
    listed = {entry["name"] for entry in api(broker, "GET", "overview")["exchange_types"]}
    assert listed >= set(TYPES)


def test_places_survive_a_restart(start_broker: Callable[..., EmberBroker]) -> None:
    broker = start_broker()
    names = ["zebra", "ant", "mole", "bee"]
    places: list[dict[bytes, int]] = []
    for _ in range(2):
        with Client(broker.port) as client:
            if not places:
                for type in ("x-consistent-hash", "x-modulus-hash"):
                    client.channel.exchange_declare(type, type, durable=True)
                    for number, name in enumerate(names):
                        client.declare(f"{type}.{name}", durable=True)
                        client.channel.queue_bind(f"{type}.{name}", type, str(number + 1))
            found: dict[bytes, int] = {}
            for type in ("x-consistent-hash", "x-modulus-hash"):
                send(client, type, 100)
                queues = [f"{type}.{name}" for name in names]
                shares(client, queues, 100)
                found |= {type.encode() + body: place for body, place in placed(client, queues).items()}
            places.append(found)
        broker.restart()
    assert places[0] == places[1]
