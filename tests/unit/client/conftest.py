"""One broker and one blocking connection for each test file, a queue of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from embermq.client import Channel, Connection, connect
from tools.brokers import Broker, EmberBroker


@pytest.fixture(scope="module")
def ember() -> Iterator[Broker]:
    with EmberBroker() as running:
        yield running


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
