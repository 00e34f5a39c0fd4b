"""Who keeps messages for too long is looked for in steps, so that nobody waits for the search.

What is found is tested in tests/extensions/test_consumer_timeout.py, with clients.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from embermq.amqp.channel import consumer_timeout as timeouts
from embermq.amqp.channel.consumer_timeout import DeliveryTimeouts
from embermq.amqp.connection.connection import Connection
from embermq.broker.queue.template import Defaults
from embermq.wire import methods
from tests.support.amqp_conversation import Wire, publish
from tests.support.stored_domain import StoredBroker


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


def test_the_reader_of_a_lease_is_no_hindrance(tmp_path: Path) -> None:
    """It acknowledges nothing, and is looked at before a consumer that is overdue."""
    with StoredBroker(tmp_path) as stored:
        reader = Wire(stored=stored).open()
        slow = Wire(beside=reader).open()
        slow.say(methods.QueueDeclare(queue="q", durable=True), channel=1)
        for body in (b"leased", b"kept"):
            slow.feed(publish("q", body))
        leases, queue = stored.vhost.leases, stored.vhost.queues["q"]
        lease = leases.begin(queue, "lease", 0)
        lease.take(1, 1000)
        leases.keep(lease)
        stored.wait_until_safe()
        reader.say(methods.ChannelFlow(active=False), channel=1)
        reader.say(methods.BasicConsume(queue="q", no_ack=True, arguments={"x-lease": "lease"}), channel=1)
        slow.say(methods.BasicConsume(queue="q"), channel=1)
        assert (len(lease.readings), queue.unacked_count) == (1, 2)
        connections = [reader.connection, slow.connection]
        watch = DeliveryTimeouts(lambda: connections, Defaults(consumer_timeout_ms=1000))
        for now_ms in (1000, 10_000):
            watch.tick(now_ms)
            stored.loop.run()
        closed = [said for said in slow.take_methods() if isinstance(said, methods.ChannelClose)]
        assert [close.reply_code for close in closed] == [406]
        assert reader.connection.channels
