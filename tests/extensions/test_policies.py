"""Policies and operator policies: what they do to queues and exchanges that are there, and to new ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pika
import pytest

from tests.support.management import Management, managed_broker
from tests.support.pika_client import Client, eventually, unique
from tools.brokers import Broker


@pytest.fixture(scope="module")
def broker(target: str) -> Iterator[Broker]:
    with managed_broker(target) as running:
        yield running


@pytest.fixture
def management(broker: Broker) -> Iterator[Management]:
    management = Management(broker)
    yield management
    for operator in (False, True):
        for policy in management.get("operator-policies" if operator else "policies"):
            management.delete_policy(policy["name"], operator=operator)


def fill(client: Client, queue: str, count: int, persistent: bool = False) -> None:
    for number in range(count):
        client.publish(queue, b"%d" % number, delivery_mode=2 if persistent else 1)
    client.count(queue)  # the broker has them: policies come on another connection


def only(*names: str) -> str:
    """A pattern for these names."""
    return "^(" + "|".join(re.escape(name) for name in names) + ")$"


def test_a_limit_holds_at_once_and_for_what_comes(client: Client, management: Management) -> None:
    queue = client.declare()
    fill(client, queue, 10)
    management.set_policy("p", only(queue), max_length=3)
    eventually(lambda: client.count(queue) == 3)
    client.publish(queue, b"new")
    assert client.drain(queue) == [b"8", b"9", b"new"]
    management.delete_policy("p")
    eventually(lambda: fill(client, queue, 5) or client.count(queue) > 3)


def test_it_holds_for_queues_declared_later(client: Client, management: Management) -> None:
    queue = unique()
    management.set_policy("p", only(queue), max_length=2)
    client.declare(queue)
    fill(client, queue, 5)
    assert client.drain(queue) == [b"3", b"4"]
    client.declare(queue)  # equal to what was declared, whatever the policy says


def test_other_names_and_kinds_are_left_alone(client: Client, management: Management) -> None:
    queue, other = client.declare(), client.declare()
    management.set_policy("p", only(queue), max_length=1, apply_to="exchanges")
    management.set_policy("other", only(unique()), max_length=1)
    fill(client, queue, 3)
    fill(client, other, 3)
    assert client.count(queue) == client.count(other) == 3


def test_the_highest_priority_holds_and_no_other(client: Client, management: Management) -> None:
    queue = client.declare()
    management.set_policy("low", only(queue), max_length=1, priority=1)
    management.set_policy("high", only(queue), max_length_bytes=1000, priority=2)
    fill(client, queue, 3)
    assert client.count(queue) == 3
    eventually(lambda: management.queue(queue).get("policy") == "high")
    assert management.queue(queue)["effective_policy_definition"] == {"max-length-bytes": 1000}
    management.delete_policy("high")
    eventually(lambda: client.count(queue) == 1)


@pytest.mark.parametrize(
    ("declared", "policy", "operator", "holds"),
    [
        (7, 5, 3, 3),
        (2, 5, 3, 2),
        (7, 5, None, 5),
        (2, 5, None, 2),
        (None, 2, 5, 2),
        (None, None, 4, 4),
    ],
)
def test_of_limits_the_lowest_holds(
    client: Client,
    management: Management,
    declared: int | None,
    policy: int | None,
    operator: int | None,
    holds: int,
) -> None:
    queue = client.declare(**({} if declared is None else {"x_max_length": declared}))
    if policy is not None:
        management.set_policy("p", only(queue), max_length=policy)
    if operator is not None:
        management.set_policy("o", only(queue), operator=True, max_length=operator, apply_to="queues")
    fill(client, queue, 9)
    eventually(lambda: client.count(queue) == holds)


def test_what_was_declared_holds_before_a_policy(client: Client, management: Management) -> None:
    letters, others = client.declare(), client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    management.set_policy("p", only(queue), **{"dead-letter-routing-key": others, "max-length": 0})
    client.publish(queue, b"dead")
    assert client.await_message(letters).body == b"dead"
    assert client.count(others) == 0


def test_dead_letters_by_policy_come_and_go(client: Client, management: Management) -> None:
    queue, letters = client.declare(), client.declare()
    management.set_policy("p", only(queue), dead_letter_exchange="", dead_letter_routing_key=letters)

    def rejected() -> bool:
        client.publish(queue, b"no")
        got = client.await_message(queue, ack=False)
        client.channel.basic_reject(got.method.delivery_tag, requeue=False)
        return client.count(letters) == 1

    eventually(rejected)
    assert client.await_message(letters).headers["x-death"][0]["reason"] == "rejected"
    management.delete_policy("p")
    eventually(lambda: (client.channel.queue_purge(letters), not rejected())[1])


def test_overflow_by_policy_nacks(client: Client, management: Management) -> None:
    queue = client.declare()
    client.channel.confirm_delivery()
    management.set_policy("p", only(queue), max_length=1, overflow="reject-publish")

    def refused() -> bool:
        try:
            client.publish(queue, b"x")
        except pika.exceptions.NackError:
            return True
        return False

    eventually(refused)
    assert client.count(queue) >= 1


def test_messages_that_are_there_keep_their_time(client: Client, management: Management) -> None:
    queue = client.declare()
    client.publish(queue, b"old")
    assert client.count(queue) == 1
    management.set_policy("p", only(queue), message_ttl=1)

    def gone() -> bool:
        client.publish(queue, b"young")
        return client.count(queue) <= 2

    eventually(gone)
    got = client.await_message(queue)
    assert got.body == b"old"
    eventually(lambda: client.count(queue) == 0)


def test_a_queue_that_nobody_uses_goes_by_policy(client: Client, management: Management) -> None:
    queue = client.declare()
    management.set_policy("p", only(queue), expires=50)
    # Asked by HTTP: a client that asks uses it.
    eventually(lambda: management.ask("GET", f"queues/%2F/{queue}")[0] == 404)


def test_alternate_exchange_by_policy(client: Client, management: Management) -> None:
    exchange, alternate, queue = unique("exchange"), unique("exchange"), client.declare()
    client.channel.exchange_declare(exchange, "direct")
    client.channel.exchange_declare(alternate, "fanout")
    client.channel.queue_bind(queue, alternate)
    client.publish("nowhere", b"lost", exchange=exchange)
    management.set_policy("p", only(exchange), alternate_exchange=alternate, apply_to="exchanges")
    client.publish("nowhere", b"found", exchange=exchange)
    assert client.await_message(queue).body == b"found"
    assert management.get(f"exchanges/%2F/{exchange}")["policy"] == "p"
    management.delete_policy("p")
    client.publish("nowhere", b"lost", exchange=exchange)
    client.channel.queue_declare(queue, passive=True)
    assert client.count(queue) == 0
    client.channel.exchange_delete(exchange)
    client.channel.exchange_delete(alternate)


def test_what_it_comes_to_is_shown(client: Client, management: Management, target: str) -> None:
    queue = client.declare(x_max_length=7)
    management.set_policy("p", only(queue), max_length=5, dead_letter_exchange="a")
    management.set_policy("o", only(queue), operator=True, max_length=3, expires=600000, apply_to="queues")
    eventually(lambda: management.queue(queue).get("policy"))
    view = management.queue(queue)
    assert (view["policy"], view["operator_policy"]) == ("p", "o")
    assert view["effective_policy_definition"] == {
        "max-length": 3,
        "dead-letter-exchange": "a",
        "expires": 600000,
    }
    assert view["arguments"] == {"x-max-length": 7}
    if target == "embermq":
        assert view["effective_arguments"] == {
            "x-max-length": 3,
            "x-dead-letter-exchange": "a",
            "x-expires": 600000,
        }


def test_with_a_key_that_is_not_for_its_type_a_policy_is_not_for_a_queue(
    client: Client, management: Management, target: str
) -> None:
    if target == "rabbitmq":
        pytest.skip("RabbitMQ 3.10 does not look; this is the rule of RabbitMQ 4")
    queue = client.declare()
    management.set_policy("p", only(queue), max_age="1h", max_length_bytes=1)
    fill(client, queue, 3)
    assert client.count(queue) == 3
    assert management.queue(queue).get("policy") is None


def test_across_a_restart(target: str) -> None:
    with managed_broker(target) as broker:
        management = Management(broker)
        short, slow, exchange = unique(), unique(), unique("exchange")
        with Client(broker.port) as client:
            client.declare(short, durable=True)
            client.declare(slow, durable=True)
            client.channel.exchange_declare(exchange, "direct", durable=True)
            fill(client, slow, 1, persistent=True)
            management.set_policy("short", only(short), max_length=2)
            management.set_policy("slow", only(slow), message_ttl=1)
            management.set_policy("x", only(exchange), alternate_exchange="amq.fanout")
            management.set_policy("o", only(short), operator=True, max_length=1)
        broker.stop()
        broker.start()
        management = Management(broker)
        assert sorted(policy["name"] for policy in management.get("policies")) == ["short", "slow", "x"]
        with Client(broker.port) as client:
            fill(client, short, 5, persistent=True)
            assert client.drain(short) == [b"4"]
            assert client.drain(slow) == [b"0"]  # from before the policy: it does not expire
            fill(client, slow, 3)
            eventually(lambda: client.count(slow) == 0)
            client.channel.queue_bind(short, "amq.fanout")
            client.publish("nowhere", b"found", exchange=exchange)
            assert client.await_message(short).body == b"found"
