"""The API of a broker in memory."""

from collections.abc import Iterator

import pytest

from tests.support.http_api import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Desk() as running:
        yield running
