"""Fixtures of the interoperability tests: a broker that may die, and names that nobody else uses.

The clients are the judges here, so every test talks to a broker process over TCP through a client that
other people wrote. `EMBERMQ_TEST_TARGET=rabbitmq` lets the same tests judge RabbitMQ, which shows that an
expectation is the clients' and not ours.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Iterator

import pytest

from tools.brokers import Broker, BrokerError, EmberBroker, RabbitBroker


@pytest.fixture(scope="session")
def _second_broker(target: str) -> Iterator[Broker]:
    with (RabbitBroker if target == "rabbitmq" else EmberBroker)() as running:
        yield running


@pytest.fixture
def mortal_broker(_second_broker: Broker) -> Broker:
    """A broker that a test may kill; `start()` brings it back on the same port with its data."""
    try:
        _second_broker.start()
    except BrokerError:
        assert _second_broker.pid  # it is running already
    return _second_broker


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Makes names for queues and exchanges which no other test can meet."""
    return lambda kind: f"interop.{kind}.{uuid.uuid4().hex}"


@pytest.fixture
def queue_name(fresh_name: Callable[[str], str]) -> str:
    return fresh_name("queue")


@pytest.fixture
def exchange_name(fresh_name: Callable[[str], str]) -> str:
    return fresh_name("exchange")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test written as a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
