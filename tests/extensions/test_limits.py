"""x-max-length, x-max-length-bytes and x-overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, eventually, unique


def fill(client: Client, queue: str, count: int, **properties: Any) -> None:
    for number in range(count):
        client.publish(queue, b"%d" % number, **properties)


def test_the_oldest_are_dropped(client: Client) -> None:
    queue = client.declare(x_max_length=3)
    fill(client, queue, 10)
    assert client.count(queue) == 3
    assert client.drain(queue) == [b"7", b"8", b"9"]


def test_bytes_are_those_of_the_bodies(client: Client) -> None:
    queue = client.declare(x_max_length_bytes=30)
    for letter in b"abcde":
        client.publish(queue, bytes([letter]) * 10, content_type="application/x-long-name", headers={"h": 1})
    assert client.drain(queue) == [b"c" * 10, b"d" * 10, b"e" * 10]
    client.publish(queue, b"!" * 31)
    assert client.drain(queue) == []


def test_either_limit_counts(client: Client) -> None:
    queue = client.declare(x_max_length=2, x_max_length_bytes=10)
    fill(client, queue, 3)
    assert client.count(queue) == 2
    client.publish(queue, b"0123456789")
    assert client.drain(queue) == [b"0123456789"]


def test_a_limit_of_nothing(client: Client) -> None:
    queue = client.declare(x_max_length=0)
    fill(client, queue, 2)
    assert client.get(queue) is None


@pytest.mark.parametrize("limits", [{"x_max_length": 3}, {"x_max_length": 3, "x_overflow": "drop-head"}])
def test_what_is_out_does_not_count(client: Client, limits: dict[str, Any]) -> None:
    queue = client.declare(**limits)
    fill(client, queue, 3)
    taken = [client.get(queue, ack=False) for _ in range(3)]
    fill(client, queue, 3)
    assert client.count(queue) == 3
    for got in taken:
        assert got is not None
        client.channel.basic_ack(got.method.delivery_tag)
    assert client.drain(queue) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_consumer_keeps_a_queue_within_its_limit(client: Client, overflow: str) -> None:
    """What a consumer takes at once never piles up, however fast it comes."""
    queue = client.declare(x_max_length=10, x_overflow=overflow)
    bodies: list[bytes] = []
    client.channel.basic_consume(queue, lambda c, m, p, body: bodies.append(body), auto_ack=True)
    fill(client, queue, 1000)
    eventually(lambda: client.connection.process_data_events(0.05) or len(bodies) == 1000)
    assert bodies == [b"%d" % number for number in range(1000)]


def nacked(client: Client, queue: str, body: bytes) -> bool:
    try:
        client.publish(queue, body)
    except pika.exceptions.NackError:
        return True
    return False


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_publishers_hear_that_a_queue_is_full(client: Client, overflow: str) -> None:
    queue = client.declare(x_max_length=2, x_overflow=overflow)
    client.channel.confirm_delivery()
    assert [nacked(client, queue, b"%d" % number) for number in range(4)] == [False, False, True, True]
    assert client.get(queue) is not None
    assert not nacked(client, queue, b"4")
    assert client.drain(queue) == [b"1", b"4"]


def test_a_full_queue_among_others(client: Client) -> None:
    """The others get the message; the publisher hears of the one that did not."""
    full, roomy = client.declare(x_max_length=0, x_overflow="reject-publish"), client.declare()
    exchange = unique("exchange")
    client.channel.exchange_declare(exchange, "fanout", auto_delete=True)
    for queue in (full, roomy):
        client.channel.queue_bind(queue, exchange)
    client.channel.confirm_delivery()
    with pytest.raises(pika.exceptions.NackError):
        client.publish("", b"x", exchange=exchange)
    assert client.drain(roomy) == [b"x"]
    assert client.drain(full) == []


def test_without_confirms_a_full_queue_says_nothing(client: Client) -> None:
    queue = client.declare(x_max_length=1, x_overflow="reject-publish")
    fill(client, queue, 3)
    assert client.drain(queue) == [b"0"]


@pytest.mark.parametrize("count", [2, 1500])
def test_a_transaction_is_told_that_a_queue_is_full(client: Client, count: int) -> None:
    queue = client.declare(x_max_length=1, x_overflow="reject-publish")
    other = client.connection.channel()
    other.tx_select()
    for number in range(count):
        other.basic_publish("", queue, b"%d" % number)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="partial tx completion") as closed:
        other.tx_commit()
    assert closed.value.reply_code == 406
    assert client.drain(queue) == [b"0"]


def test_full_in_bytes(client: Client) -> None:
    queue = client.declare(x_max_length_bytes=10, x_overflow="reject-publish")
    client.channel.confirm_delivery()
    assert not nacked(client, queue, b"123456")
    assert nacked(client, queue, b"12345")
    assert not nacked(client, queue, b"1234")


@pytest.mark.parametrize("limit", [{"x_max_length": 3}, {"x_max_length_bytes": 3}])
def test_limits_after_a_restart(start_broker: Callable[..., Any], limit: dict[str, Any]) -> None:
    broker = start_broker()
    name = unique()
    with Client(broker.port) as client:
        client.declare(name, durable=True, **limit)
        client.channel.confirm_delivery()
        fill(client, name, 5, delivery_mode=2)
    broker.stop()
    broker.start()
    with Client(broker.port) as client:
        assert client.count(name) == 3
        fill(client, name, 2, delivery_mode=2)
        assert client.count(name) == 3
        assert client.drain(name) == [b"4", b"0", b"1"]


@pytest.mark.slow
def test_limits_of_a_paged_queue(client: Client) -> None:
    queue = client.declare(x_max_length=40_000)
    for number in range(41_000):
        client.publish(queue, b"%d" % number)
    assert client.count(queue) == 40_000
    got = client.get(queue)
    assert got is not None and got.body == b"1000"
