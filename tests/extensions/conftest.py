"""Clients for the tests of RabbitMQ's extensions; EMBERMQ_TEST_TARGET=rabbitmq runs them there as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.pika_client import Client
from tools.brokers import Broker


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[[], Client]]:
    """`connect()` gives another connection with a channel."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Client(broker.port))


@pytest.fixture
def client(connect: Callable[[], Client]) -> Client:
    return connect()
