"""The same clients as for the other extensions; EMBERMQ_TEST_TARGET=rabbitmq checks the tests themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extensions.conftest import client, connect
from tests.support.pika_client import Client
from tools.brokers import EmberBroker

__all__ = ["client", "connect"]


@pytest.fixture(scope="session")
def stored() -> Iterator[EmberBroker]:
    """A broker of our own, because we kill it."""
    with EmberBroker() as broker:
        yield broker


@pytest.fixture
def reader(stored: EmberBroker) -> Iterator[Client]:
    with Client(stored.port) as client:
        yield client
