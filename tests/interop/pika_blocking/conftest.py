"""An open connection, channel and queue for the tests of pika's BlockingConnection."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.pika_blocking.shortcuts import parameters
from tools.brokers import Broker


@pytest.fixture
def connection(broker: Broker) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(parameters(broker))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, queue_name: str) -> str:
    channel.queue_declare(queue_name, exclusive=True)
    return queue_name
