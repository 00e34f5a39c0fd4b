"""What the tests of this room share."""

from __future__ import annotations

import pytest

from embermq.amqp.connection import connection


@pytest.fixture(autouse=True)
def _all_the_time_in_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that has used its time leaves the rest of what was read to the next; here, that must not depend
    on how busy the machine is."""
    monkeypatch.setattr(connection, "perf_counter", lambda: 0.0)
