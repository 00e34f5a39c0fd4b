"""Policies over a queue whose messages are mostly on disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.management import Management, managed_broker
from tests.support.pika_client import Client, eventually
from tools.brokers import Broker

PAGED_COUNT = 40_000  # more than a queue keeps in memory


@pytest.fixture(scope="module")
def broker(target: str) -> Iterator[Broker]:
    with managed_broker(target) as running:
        yield running


def deep_queue(client: Client) -> str:
    queue = client.declare(durable=True)
    for number in range(PAGED_COUNT):
        client.publish(queue, b"%d" % number)
    eventually(lambda: client.count(queue) == PAGED_COUNT)
    return queue


def test_limits_and_times(client: Client, broker: Broker) -> None:
    management, queue = Management(broker), deep_queue(client)
    management.set_policy("ttl", f"^{queue}$", message_ttl=1)
    for _ in range(10):
        client.publish(queue, b"young")
    client.count(queue)  # the broker has them all before it hears of the next policy, on another connection
    management.set_policy("ttl", f"^{queue}$", max_length=PAGED_COUNT - 5)
    eventually(lambda: client.count(queue) == PAGED_COUNT - 5)
    got = client.await_message(queue)
    assert got.body == b"15"  # fifteen too many, ten of which were young
    management.set_policy("ttl", f"^{queue}$", max_length=11)
    eventually(lambda: client.count(queue) == 11)
    # What is left are the last old one, which never expires, and the young ones, whose time is long over.
    assert client.drain(queue) == [b"%d" % (PAGED_COUNT - 1)]
