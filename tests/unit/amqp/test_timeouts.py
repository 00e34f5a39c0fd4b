"""Who keeps messages for too long is looked for in steps, so that nobody waits for the search.

What is found is tested in tests/extensions/test_consumer_timeout.py, with clients.
"""

from __future__ import annotations

from typing import cast

import pytest

from embermq.amqp import timeouts
from embermq.amqp.connection import Connection
from embermq.amqp.timeouts import DeliveryTimeouts
from embermq.broker.defaults import Defaults


class Quiet:
    """A connection without channels that counts who asks for them."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def channels(self) -> dict[int, object]:
        self.looks += 1
        return {}


def test_many_connections_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "CONNECTIONS_PER_STEP", 2)
    connections = [Quiet() for _ in range(5)]
    watch = DeliveryTimeouts(lambda: cast(list[Connection], connections), Defaults())
    seen = []
    for _ in range(3):
        more = watch.tick(1000)
        seen.append((more, sum(connection.looks for connection in connections)))
    assert seen == [(True, 2), (True, 4), (False, 5)]
    assert watch.tick(1000) is False
    assert sum(connection.looks for connection in connections) == 5, "all were looked at just now"
