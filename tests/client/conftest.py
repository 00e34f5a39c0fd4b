"""One broker and one blocking connection for each test file, a queue of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from embermq.client import Channel, Connection, connect
from tools.brokers import Broker, EmberBroker, RabbitBroker


@pytest.fixture(scope="module")
def ember(target: str) -> Iterator[Broker]:
    """EmberMQ; EMBERMQ_TEST_TARGET=rabbitmq shows what of the client holds for RabbitMQ, too."""
    with (RabbitBroker if target == "rabbitmq" else EmberBroker)() as running:
        yield running


@pytest.fixture
def only_ember(target: str) -> None:
    if target == "rabbitmq":
        pytest.skip(
            "EmberMQ's: streams without acks, named consumers, exact last offsets, partitions by number"
        )


@pytest.fixture(scope="module")
def connection(ember: Broker) -> Iterator[Connection]:
    with connect(ember.url, call_timeout_s=60) as opened:
        yield opened


@pytest.fixture
def channel(connection: Connection) -> Iterator[Channel]:
    with connection.channel() as opened:
        yield opened


@pytest.fixture
def queue(channel: Channel) -> str:
    name = f"client.{uuid.uuid4().hex}"
    channel.queue_declare(name, exclusive=True)
    return name
