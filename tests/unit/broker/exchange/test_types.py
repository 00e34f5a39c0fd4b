"""Exchange types that decide by each message, against a plain check of each binding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.exchange.headers import HeadersPattern
from embermq.broker.message.rewrite import composed
from embermq.broker.selector.selector import Selector
from embermq.broker.vhost import VirtualHost
from embermq.errors import PreconditionFailed
from embermq.wire.properties import Properties
from tests.support.domain import Loop, new_queue, new_vhost


def declare(vhost: VirtualHost, type: str) -> Exchange:
    return vhost.declare_exchange("x", type, durable=False, auto_delete=False, internal=False, arguments={})


def reached(exchange: Exchange, headers: dict[str, object], key: str = "k", body: bytes = b"") -> set[str]:
    message = composed("x", key, Properties(headers=headers), body)
    return {queue.name for queue in exchange.resolve(key, message)[0]}


NAMES = st.sampled_from([f"h{number}" for number in range(4)])
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [1, 2, True, False, 1.0, "1", "a", None, [1], {"a": 1}, b"a"]
)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=4)
ARGUMENTS = st.builds(
    lambda wanted, mode: {**wanted, **({"x-match": mode} if mode else {})},
    st.dictionaries(NAMES, VALUES, max_size=3),
    st.sampled_from(["", "all", "any"]),
)


@given(
    bindings=st.lists(st.tuples(st.integers(0, 3), ARGUMENTS), max_size=12),
    unbound=st.sets(st.integers(0, 11)),
    messages=st.lists(HEADERS, min_size=1, max_size=4),
)
def test_a_headers_exchange_finds_what_each_binding_says(
    bindings: list[tuple[int, dict[str, object]]], unbound: set[int], messages: list[dict[str, object]]
) -> None:
    vhost = new_vhost(Loop())
    exchange, queues = declare(vhost, "headers"), [new_queue(vhost, f"q{number}") for number in range(4)]
    for queue, arguments in bindings:
        vhost.bind(exchange, queues[queue], "", arguments)
    for number in unbound:
        if number < len(bindings):
            vhost.unbind(exchange, queues[bindings[number][0]], "", bindings[number][1])
    for headers in messages:
        expected = {
            binding.destination.name
            for binding in exchange.bindings.values()
            if HeadersPattern(binding.arguments).matches(headers)
        }
        assert reached(exchange, headers) == expected


SELECTORS = st.sampled_from(
    [
        "a = 1",
        "a = TRUE",
        "a = 'x'",
        "b = 2 AND a = 1",
        "a IN ('x', 'y') AND b > 1",
        "a = 1 OR b = 2",
        "b BETWEEN 1 AND 3",
        "a IS NULL",
        "NOT (a = 1)",
        "amqp.routing_key = 'k'",
        "amqp.size > 2",
        "amqp.exchange = 'x' AND amqp.routing_key LIKE 'j%'",
    ]
)


@given(
    bindings=st.lists(st.tuples(st.integers(0, 3), SELECTORS, st.booleans()), max_size=15),
    messages=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("ab"), VALUES | st.sampled_from("xy")), st.sampled_from("kj")
        ),
        min_size=1,
        max_size=4,
    ),
    body=st.binary(max_size=4),
)
def test_a_selector_exchange_finds_what_each_selector_says(
    bindings: list[tuple[int, str, bool]], messages: list[tuple[dict[str, object], str]], body: bytes
) -> None:
    vhost = new_vhost(Loop())
    exchange, queues = declare(vhost, "x-selector"), [new_queue(vhost, f"q{number}") for number in range(4)]
    for queue, selector, _ in bindings:
        vhost.bind(exchange, queues[queue], "", {"x-selector": selector})
    bound = {(queue, selector) for queue, selector, _ in bindings}
    for queue, selector, stays in bindings:
        if not stays:
            vhost.unbind(exchange, queues[queue], "", {"x-selector": selector})
            bound.discard((queue, selector))
    for headers, key in messages:
        message = composed("x", key, Properties(headers=headers), body)
        expected = {f"q{queue}" for queue, selector in bound if Selector(selector).matches(message)}
        assert reached(exchange, headers, key, body) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "a binding to an x-selector exchange needs the argument x-selector, a text"),
        ({"x-selector": 5}, "a binding to an x-selector exchange needs the argument x-selector, a text"),
        ({"x-selector": "a = "}, "invalid selector: it ends where a value was expected (at its end)"),
        ({"x-selector": "a ! 1"}, "invalid selector: unexpected '!' (at character 3, near '! 1')"),
    ],
)
def test_a_binding_without_a_selector_is_refused(arguments: dict[str, object], text: str) -> None:
    vhost = new_vhost(Loop())
    exchange, queue = declare(vhost, "x-selector"), new_queue(vhost)
    with pytest.raises(PreconditionFailed) as refused:
        vhost.bind(exchange, queue, "", arguments)
    assert refused.value.detail == text
    vhost.unbind(exchange, queue, "", arguments)
    assert not exchange.bindings
