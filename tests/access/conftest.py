"""One broker for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.brokers import EmberBroker


@pytest.fixture(scope="module")
def ember() -> Iterator[EmberBroker]:
    with EmberBroker() as broker:
        yield broker
