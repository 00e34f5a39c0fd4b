"""A broker for clients of AMQP 0-9, and such clients."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from embermq.testing import EmbeddedBroker
from tests.support.client_0_9 import Client09


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def connect(broker: EmbeddedBroker) -> Iterator[Callable[..., Client09]]:
    with ExitStack() as stack:
        yield lambda **login: stack.enter_context(Client09(broker.port, **login))


@pytest.fixture
def client(connect: Callable[..., Client09]) -> Client09:
    """A connection with channel 1 open."""
    client = connect()
    client.open(1)
    return client
