"""Bindings: which of them are one, and which survive a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.exchange.binding import Binding, frozen
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from tests.support.domain import Loop, new_queue, new_vhost
from tests.unit.broker.exchange.test_exchange import declare


@pytest.fixture
def vhost() -> VirtualHost:
    return new_vhost(Loop())


def test_equal_bindings_are_one(vhost: VirtualHost) -> None:
    exchange, queue = declare(vhost, "x", "direct"), new_queue(vhost)
    for _ in range(3):
        vhost.bind(exchange, queue, "k", {"a": 1, "b": [1, {"c": "d"}]})
        vhost.bind(exchange, queue, "k", {"b": [1, {"c": "d"}], "a": 1})
    assert len(exchange.bindings) == 1
    vhost.unbind(exchange, queue, "k", {"a": 2})
    vhost.unbind(exchange, queue, "other", {"a": 1})
    assert len(exchange.bindings) == 1
    vhost.unbind(exchange, queue, "k", {"a": 1, "b": [1, {"c": "d"}]})
    assert exchange.bindings == {} and vhost.queue_bindings[queue] == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": "1"}),
        ({"a": "x"}, {"a": b"x"}),
        ({"a": None}, {}),
        ({"a": []}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [["x", 1]]}, {"a": {"x": 1}}),
    ],
)
def test_bindings_differ_when_their_arguments_do(
    vhost: VirtualHost, one: dict[str, object], other: dict[str, object]
) -> None:
    exchange, queue = declare(vhost, "x", "direct"), new_queue(vhost)
    vhost.bind(exchange, queue, "k", one)
    vhost.bind(exchange, queue, "k", other)
    assert len(exchange.bindings) == 2


plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=2) | st.binary(max_size=2)


def tables_of(inner: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.text(max_size=2), inner, max_size=3)


nested = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | tables_of(inner), max_leaves=6)


def same(one: object, other: object) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(one=tables_of(nested), other=tables_of(nested))
def test_frozen_tables_are_equal_when_the_tables_are(one: object, other: object) -> None:
    assert hash(frozen(one)) == hash(frozen(one))
    assert (frozen(one) == frozen(other)) == same(one, other)


def test_what_survives_a_restart(vhost: VirtualHost) -> None:
    durable = vhost.exchanges["amq.direct"]
    transient = declare(vhost, "x")
    queues: dict[str, Queue] = {
        "durable": new_queue(vhost, "a", durable=True),
        "transient": new_queue(vhost, "b"),
        "exclusive": new_queue(vhost, "c", durable=True, exclusive=True, owner=object()),
    }
    survives = {name: Binding(durable, queue, "", {}).durable for name, queue in queues.items()}
    assert survives == {"durable": True, "transient": False, "exclusive": False}
    assert not Binding(transient, queues["durable"], "", {}).durable
    assert Binding(durable, vhost.exchanges["amq.fanout"], "", {}).durable
