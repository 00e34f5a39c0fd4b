"""Queue types: equal declarations, defaults of a virtual host, arguments that only RabbitMQ has a use for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.support.management import Management, managed_broker
from tests.support.pika_client import Client, unique
from tools.brokers import Broker


@pytest.fixture(scope="module")
def broker(target: str) -> Iterator[Broker]:
    with managed_broker(target) as running:
        yield running


def declare(client: Client, name: str, arguments: dict[str, Any]) -> str:
    """Empty when it went well, otherwise the text of the refusal."""
    channel = client.connection.channel()
    try:
        channel.queue_declare(name, durable=True, arguments=arguments)
    except pika.exceptions.ChannelClosedByBroker as error:
        return error.reply_text.partition(f"'{name}' in vhost '/'")[2].removeprefix(": ")
    channel.close()
    return ""


QUORUM, CLASSIC = {"x-queue-type": "quorum"}, {"x-queue-type": "classic"}
OF_TEXT = "the value '{}' of type 'longstr'"


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [
        ({}, CLASSIC, ""),
        (CLASSIC, {}, ""),
        ({}, QUORUM, f"received {OF_TEXT.format('quorum')} but current is none"),
        (CLASSIC, QUORUM, "received 'quorum' but current is 'classic'"),
        (QUORUM, {}, f"received none but current is {OF_TEXT.format('quorum')}"),
        (QUORUM, CLASSIC, "received 'classic' but current is 'quorum'"),
        (
            QUORUM,
            {**QUORUM, "x-delivery-limit": 5},
            "received the value '5' of type 'signedint' but current is none",
        ),
        (
            {**QUORUM, "x-dead-letter-strategy": "at-least-once"},
            QUORUM,
            f"received none but current is {OF_TEXT.format('at-least-once')}",
        ),
        ({}, {"x-unknown": 1}, ""),
        ({}, {"x-consumer-timeout": 5}, ""),
    ],
)
def test_equal_declarations(
    client: Client, first: dict[str, Any], second: dict[str, Any], refusal: str
) -> None:
    name = unique()
    assert declare(client, name, first) == ""
    assert declare(client, name, second) == refusal


@pytest.mark.parametrize(
    "argument",
    [
        {"x-quorum-initial-group-size": 3},
        {"x-queue-leader-locator": "client-local"},
        {"x-dead-letter-strategy": "at-most-once"},
        {"x-max-in-memory-length": 100},
        {"x-max-in-memory-bytes": 100},
    ],
)
def test_what_only_rabbitmq_has_a_use_for(client: Client, argument: dict[str, Any]) -> None:
    assert declare(client, unique(), {**QUORUM, **argument}) == ""


@pytest.mark.parametrize(
    ("argument", "value", "refusal"),
    [
        ("x-quorum-initial-group-size", "x", '"expected integer, got longstr"'),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "x", "invalid_queue_locator_arg"),
        ("x-dead-letter-strategy", "x", "invalid_dlx_strategy"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
    ],
)
def test_checked_all_the_same(client: Client, argument: str, value: Any, refusal: str) -> None:
    assert declare(client, unique(), {**QUORUM, argument: value}) == refusal


def test_a_virtual_host_has_a_default_type(broker: Broker, target: str) -> None:
    if target == "rabbitmq":
        pytest.skip("RabbitMQ 3.10 has no default type; this is as RabbitMQ 4 does it")
    management = Management(broker)
    status, _ = management.ask("PUT", "vhosts/modern", {"default_queue_type": "quorum"})
    assert status == 201
    address = pika.ConnectionParameters("127.0.0.1", broker.port, "modern")
    for _ in range(2):  # and again after a restart
        connection = pika.BlockingConnection(address)
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("kept", durable=True, arguments=QUORUM)
        channel.queue_declare("old", durable=True, arguments=CLASSIC)
        channel.queue_declare("old", durable=True)
        brief = channel.queue_declare("", exclusive=True).method.queue
        types = {queue["name"]: queue["type"] for queue in management.get("queues/modern")}
        assert types == {"kept": "quorum", "old": "classic", brief: "classic"}
        assert management.get("queues/modern/kept")["arguments"] == QUORUM
        assert management.get("vhosts/modern")["default_queue_type"] == "quorum"
        connection.close()
        broker.stop()
        broker.start()
    assert management.ask("PUT", "vhosts/other", {"default_queue_type": "nonsense"})[0] == 400
