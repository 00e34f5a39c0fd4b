"""The pytest plugin: installed with the package, found by pytest itself.

    amqp_broker   (session)   one broker for the run, per worker of pytest-xdist, in memory
    amqp_vhost    (test)      the name of a virtual host that only this test uses
    amqp_url      (test)      the URL of that virtual host: amqp://guest:guest@127.0.0.1:PORT/test-...

`amqp_broker_settings` (session) is for overriding: what it answers is given to EmbeddedBroker.
Imports wait for the first use, because pytest loads this in every run where EmberMQ is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from embermq.testing.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def amqp_broker_settings() -> dict[str, Any]:
    """Keywords for the session's EmbeddedBroker; override in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def amqp_broker(amqp_broker_settings: dict[str, Any]) -> Iterator[EmbeddedBroker]:
    """A real AMQP broker in this process, for the whole run (of one worker, with pytest-xdist)."""
    from embermq.testing.embedded import EmbeddedBroker

    with EmbeddedBroker(**amqp_broker_settings) as broker:
        yield broker


@pytest.fixture
def amqp_vhost(amqp_broker: EmbeddedBroker) -> Iterator[str]:
    """A virtual host for this test alone, empty at its start and gone at its end."""
    amqp_broker.start()  # a test before may have stopped it
    with amqp_broker.vhost() as name:
        yield name


@pytest.fixture
def amqp_url(amqp_broker: EmbeddedBroker, amqp_vhost: str) -> str:
    """Where to connect: guest/guest in this test's own virtual host."""
    return amqp_broker.url_of(amqp_vhost)
