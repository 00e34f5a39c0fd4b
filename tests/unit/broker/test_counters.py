"""Totals never go down, whatever changes in a virtual host while messages are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embermq.broker.broker import Broker
from embermq.broker.counters import Counters
from embermq.broker.firehose import set_tracing
from embermq.broker.policy.policy import Policy
from embermq.broker.security.user import Permission, TopicPermission
from embermq.wire import methods
from tests.support.amqp_conversation import Wire, guest, publish

USER = "guest"


@pytest.fixture(autouse=True)
def _guest_as_before() -> Iterator[None]:
    """All tests with a `Wire` have the same user."""
    user = guest()
    before = dict(user.permissions)
    yield
    user.permissions.clear()
    user.permissions.update(before)


def totals(broker: Broker) -> Counters:
    counters = Counters()
    counters.add(broker.past)
    for vhost in broker.vhosts.values():
        counters.add(vhost.past)
        for exchange in vhost.exchanges.values():
            counters.add_exchange(*exchange.counts())
        for queue in vhost.queues.values():
            queue.add_counts_to(counters)
    return counters


def grant(broker: Broker) -> None:
    broker.users.grant(broker.users[USER], "/", Permission())


def revoke(broker: Broker) -> None:
    broker.users.revoke(broker.users[USER], "/")
    grant(broker)


def grant_topics(broker: Broker) -> None:
    broker.users.grant_topics(broker.users[USER], "/", "x", TopicPermission(".*", ".*"))
    broker.users.revoke_topics(broker.users[USER], "/")


def trace(broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    set_tracing(vhost, True)
    set_tracing(vhost, False)


def set_policy(broker: Broker) -> None:
    definition: dict[str, object] = {"alternate-exchange": "amq.fanout"}
    policy = Policy("all", ".*", definition, 0, "exchanges")
    broker.vhosts["/"].policies.set("policy", policy)


def delete_queue(broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    vhost.delete_queue(vhost.queues["q"])


def delete_exchange(broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    vhost.delete_exchange(vhost.exchanges["x"])


def delete_vhost(broker: Broker) -> None:
    broker.delete_vhost(broker.vhosts["/"])


@pytest.mark.parametrize(
    "change",
    [grant, revoke, grant_topics, trace, set_policy, delete_queue, delete_exchange, delete_vhost],
)
def test_totals_never_go_down(change: Callable[[Broker], None]) -> None:
    wire = Wire().open()
    wire.say(
        methods.QueueDeclare(queue="q"),
        methods.ExchangeDeclare(exchange="x", type="topic"),
        methods.QueueBind(queue="q", exchange="x", routing_key="a.#"),
        channel=1,
    )
    for key, exchange in (("q", ""), ("nowhere", ""), ("a.b", "x"), ("b", "x")):
        for _ in range(5):
            wire.feed(publish(key, b"body", exchange))
    wire.say(methods.BasicGet(queue="q", no_ack=True), methods.BasicGet(queue="q"), channel=1)
    before = totals(wire.broker)
    assert (before.received, before.routed, before.unroutable, before.published) == (20, 10, 10, 10)
    change(wire.broker)
    after = totals(wire.broker)
    for name in Counters.__slots__:
        assert getattr(after, name) >= getattr(before, name), name
    assert (after.received, after.routed, after.unroutable) == (20, 10, 10)
