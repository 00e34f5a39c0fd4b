"""A broker that the tests of this directory mistreat, and the questions that they ask it afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.hostile.peers import Peer, healthy_round_trip
from tools.brokers import EmberBroker

# What a broker may measure after all that; a fresh one has about 40 MB. We look for growth without end.
RSS_BYTES_MAX = 400 * 1024 * 1024
FAULTS = re.compile(r"a fault of ours|Traceback|Unhandled|Exception in|never retrieved|MemoryError|fatal")


@pytest.fixture(scope="module")
def victim() -> Iterator[EmberBroker]:
    with EmberBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def unharmed(victim: EmberBroker) -> Iterator[None]:
    """Whatever a test did: others are served, memory is bounded, the broker found no fault with itself."""
    yield
    assert victim.process.poll() is None, victim.log_tail()
    healthy_round_trip(victim)
    assert victim.rss_bytes() < RSS_BYTES_MAX
    log = victim.log_path.read_text(errors="replace")
    found = FAULTS.search(log)
    assert found is None, log[max(0, found.start() - 200) : found.start() + 3000] if found else ""


@pytest.fixture
def peer(victim: EmberBroker) -> Iterator[Peer]:
    """A connection that is open and has channel 1."""
    with Peer(victim) as one:
        one.open()
        yield one


def wait_until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
