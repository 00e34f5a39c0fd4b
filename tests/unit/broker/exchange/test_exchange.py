"""Routing: what the types of exchanges mean, routes that are forgotten in time, and walks that end."""

from __future__ import annotations

import pytest

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.message.rewrite import composed
from embermq.broker.vhost import VirtualHost
from embermq.wire.properties import Properties
from tests.support.domain import Loop, constant, new_queue, new_vhost

ROUTES_MAX = constant("embermq.broker.exchange.exchange", "ROUTES_MAX")
NAMES = b"\x01x\x03key"


@pytest.fixture
def vhost() -> VirtualHost:
    return new_vhost(Loop())


def declare(vhost: VirtualHost, name: str, type: str = "fanout", auto_delete: bool = False) -> Exchange:
    return vhost.declare_exchange(
        name, type, durable=False, auto_delete=auto_delete, internal=False, arguments={}
    )


def found(exchange: Exchange, key: str = "", headers: dict[str, object] | None = None) -> list[str]:
    queues, _ = exchange.resolve(key, composed(exchange.name, key, Properties(headers=headers), b""))
    return [queue.name for queue in queues]


def test_the_default_exchange_knows_every_queue_by_its_name(vhost: VirtualHost) -> None:
    default = vhost.exchanges[""]
    assert found(default, "q") == []
    queue = new_queue(vhost, "q")
    assert found(default, "q") == ["q"]
    vhost.delete_queue(queue)
    assert found(default, "q") == []


@pytest.mark.parametrize(
    ("type", "bound", "hits", "misses"),
    [
        ("direct", "a.b", ["a.b"], ["a", "a.b.c", ""]),
        ("fanout", "a", ["a", "", "anything"], []),
        ("topic", "a.*.#", ["a.b", "a.b.c.d"], ["a", "b.a"]),
    ],
)
def test_types_of_exchanges(
    vhost: VirtualHost, type: str, bound: str, hits: list[str], misses: list[str]
) -> None:
    exchange, queue = declare(vhost, "x", type), new_queue(vhost)
    vhost.bind(exchange, queue, bound, {})
    assert [found(exchange, key) for key in hits] == [["q"]] * len(hits)
    assert [found(exchange, key) for key in misses] == [[]] * len(misses)
    vhost.unbind(exchange, queue, bound, {})
    assert [found(exchange, key) for key in hits] == [[]] * len(hits)


def test_a_queue_comes_once_however_many_ways_lead_to_it(vhost: VirtualHost) -> None:
    a, b, queue = declare(vhost, "a", "direct"), declare(vhost, "b", "topic"), new_queue(vhost)
    vhost.bind(a, queue, "k", {})
    vhost.bind(a, queue, "k", {"argument": 1})
    vhost.bind(a, b, "k", {})
    vhost.bind(b, queue, "#", {})
    vhost.bind(b, queue, "k", {})
    assert found(a, "k") == ["q"]


def test_cycles_end(vhost: VirtualHost) -> None:
    ring = [declare(vhost, name) for name in "abc"]
    queues = [new_queue(vhost, f"q{name}") for name in "abc"]
    for index, exchange in enumerate(ring):
        vhost.bind(exchange, ring[(index + 1) % 3], "", {})
        vhost.bind(exchange, exchange, "", {})
        vhost.bind(exchange, queues[index], "", {})
    for exchange in ring:
        assert sorted(found(exchange)) == ["qa", "qb", "qc"]
    vhost.delete_exchange(ring[1])
    assert found(ring[0]) == ["qa"]
    assert sorted(found(ring[2])) == ["qa", "qc"]


def test_many_exchanges_that_lead_to_one_are_walked_once_each(vhost: VirtualHost) -> None:
    """Quadratic walks would make this take minutes."""
    end, queue = declare(vhost, "end"), new_queue(vhost)
    sources = [declare(vhost, f"x{number}") for number in range(3000)]
    top = declare(vhost, "top")
    for source in sources:
        vhost.bind(source, end, "", {})
        vhost.bind(top, source, "", {})
    versions = [source.version for source in sources]
    for number in range(20):
        vhost.bind(end, queue, str(number), {})
    assert [source.version for source in sources] == [version + 20 for version in versions]
    assert found(top) == ["q"]


def test_routes_are_kept_until_something_downstream_changes(vhost: VirtualHost) -> None:
    a, b, c, queue = declare(vhost, "a"), declare(vhost, "b"), declare(vhost, "c"), new_queue(vhost)
    vhost.bind(a, b, "", {})
    vhost.bind(b, c, "", {})
    route = a.route(NAMES, "key")
    assert route.queues == () and a.route(NAMES, "key") is route
    assert route.version == a.version
    vhost.bind(c, queue, "", {})
    assert route.version != a.version, "the old answer can be told from a new one"
    fresh = a.route(NAMES, "key")
    assert fresh.queues == (queue,) and not fresh.varies
    upstream_only = c.route(NAMES, "key")
    vhost.unbind(a, b, "", {})
    assert upstream_only.version == c.version, "a change upstream concerns nobody downstream"
    vhost.bind(a, b, "", {})
    vhost.delete_queue(queue)
    assert a.route(NAMES, "key").queues == ()
    assert fresh.version != a.version


def test_routes_through_a_headers_exchange_are_worked_out_for_each_message(vhost: VirtualHost) -> None:
    a, b, queue = declare(vhost, "a"), declare(vhost, "b", "headers"), new_queue(vhost)
    vhost.bind(a, b, "", {})
    vhost.bind(b, queue, "", {"colour": "red"})
    route = a.route(NAMES, "key")
    assert route.varies and route.queues == ()
    assert found(a, "key", {"colour": "red"}) == ["q"]
    assert found(a, "key", {"colour": "blue"}) == []


def test_the_number_of_kept_routes_is_bounded(vhost: VirtualHost) -> None:
    exchange = declare(vhost, "x")
    for number in range(ROUTES_MAX + 10):
        exchange.route(NAMES, str(number))
    assert len(exchange.routes) <= ROUTES_MAX
