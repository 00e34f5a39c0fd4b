"""Consumers that keep messages for too long lose their channel, and the messages come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from tests.support.management import Management
from tests.support.pika_client import Client, eventually
from tools.brokers import Broker, EmberBroker

TEXT = "PRECONDITION_FAILED - delivery acknowledgement on channel {} timed out. Timeout value used: {} ms. "
TEXT += "This timeout value can be configured, see consumers doc guide to learn more"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # RabbitMQ 3.10 knows no timeout per queue, and looks once a minute.
    with EmberBroker(consumer_timeout=0) as running:
        yield running


def closed(client: Client) -> Any:
    """Why the channel was closed, once it is."""
    eventually(lambda: client.connection.process_data_events(0.01) or client.channel.is_closed)
    return client.channel._closing_reason


def consume(client: Client, queue: str) -> None:
    client.channel.basic_consume(queue, lambda *delivery: None)


def test_the_channel_is_closed_and_the_message_comes_back(
    client: Client, connect: Callable[[], Client]
) -> None:
    queue = client.declare(x_consumer_timeout=200)
    client.publish(queue, b"slow")
    consume(client, queue)
    reason = closed(client)
    assert (reason.reply_code, reason.reply_text) == (406, TEXT.format(1, 200))
    other = connect()
    got = other.await_message(queue)
    assert got.body == b"slow" and got.method.redelivered


def test_who_acknowledges_in_time_stays(client: Client) -> None:
    """Four times as long as the timeout. A client that had to wait itself tries again, with more time."""
    for timeout_ms in (300, 1500, 6000):
        client.channel = client.connection.channel()
        queue, slow = client.declare(x_consumer_timeout=timeout_ms), client.declare()
        consume(client, slow)
        client.publish(slow, b"kept for ever")
        client.channel.basic_consume(
            queue, lambda channel, method, *_: channel.basic_ack(method.delivery_tag)
        )
        began = last = time.monotonic()
        pause_max = 0.0
        while last - began < 4 * timeout_ms / 1000 and client.channel.is_open:
            client.publish(queue, b"quick")
            client.connection.process_data_events(0.05)
            pause_max, last = max(pause_max, time.monotonic() - last), time.monotonic()
        if pause_max < timeout_ms / 3000:
            assert client.channel.is_open
            return
    pytest.fail("this machine is too busy to tell")


def test_what_was_fetched_may_be_kept(client: Client) -> None:
    queue, other = client.declare(x_consumer_timeout=100), client.declare(x_consumer_timeout=100)
    client.publish(queue, b"fetched")
    assert client.await_message(queue, ack=False).body == b"fetched"
    client.publish(other, b"consumed")
    with client.connection.channel() as channel:
        channel.basic_consume(other, lambda *delivery: None)
        eventually(lambda: client.connection.process_data_events(0.01) or not channel.is_open)
    assert client.channel.is_open and client.count(queue) == 0


def test_by_policy(client: Client, broker: Broker) -> None:
    management, queue = Management(broker), client.declare()
    client.publish(queue)
    consume(client, queue)
    management.set_policy("timeout", f"^{queue}$", consumer_timeout=150)
    assert closed(client).reply_text == TEXT.format(1, 150)
    management.delete_policy("timeout")


def test_by_configuration(start_broker: Callable[..., Broker]) -> None:
    with EmberBroker(consumer_timeout=250) as broker, Client(broker.port) as client:
        queue, patient = client.declare(), client.declare(x_consumer_timeout=0)
        for name in (patient, queue):
            client.publish(name)
            consume(client, name)
        reason = closed(client)
        assert reason.reply_text == TEXT.format(1, 250)


def test_a_bad_argument(client: Client) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="value_negative"):
        client.declare(x_consumer_timeout=-1)
