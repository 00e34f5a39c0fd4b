"""Explanations of routes: they tell the queues that routing finds, and a reason for each binding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.exchange.explain import Explanation, Finding
from embermq.broker.message.rewrite import composed
from embermq.broker.vhost import VirtualHost
from embermq.wire.properties import Properties
from tests.support.domain import Loop, new_queue, new_vhost

ALL = "all of the headers that the binding asks for are as asked"
UNKNOWN = "the selector is neither true nor false: the message does not have what it asks about"
NONE = "none of the headers that the binding asks for are as asked"


@pytest.fixture
def vhost() -> VirtualHost:
    return new_vhost(Loop())


def declare(vhost: VirtualHost, name: str, type: str, **arguments: object) -> Exchange:
    return vhost.declare_exchange(
        name, type, durable=False, auto_delete=False, internal=False, arguments=arguments
    )


def explained(
    exchange: Exchange, key: str, headers: dict[str, object] | None = None, more_keys: tuple[str, ...] = ()
) -> tuple[Explanation, list[Finding]]:
    message = composed(exchange.name, key, Properties(headers=headers), b"")
    explanation = Explanation(exchange, message, more_keys)
    return explanation, list(explanation.findings())


def reasons(findings: list[Finding]) -> list[tuple[str, bool, str]]:
    return [(finding.destination, finding.matched, finding.reason) for finding in findings]


@pytest.mark.parametrize(
    ("type", "key", "arguments", "matched", "reason"),
    [
        ("direct", "k", {}, True, "the routing key is 'k'"),
        ("direct", "j", {}, False, "the routing key is 'k', not 'j'"),
        ("fanout", "j", {}, True, "a fanout exchange sends to all its bindings"),
        ("topic", "*", {}, True, "'k' matches '*'"),
        ("topic", "*.a", {}, False, "'k' does not match '*.a'"),
        ("headers", "", {"a": 1}, True, ALL),
        ("headers", "", {"a": 2}, False, "the header 'a' is 1, not 2"),
        ("headers", "", {"b": 1}, False, "there is no header 'b'"),
        ("headers", "", {"x-match": "any", "b": 1, "a": None}, True, "there is a header 'a'"),
        ("headers", "", {"x-match": "any", "b": 1}, False, NONE),
        ("headers", "", {}, True, "the binding asks for no header"),
        ("x-selector", "", {"x-selector": "a = 1"}, True, "the selector is true"),
        ("x-selector", "", {"x-selector": "a = 2"}, False, "the selector is false"),
        ("x-selector", "", {"x-selector": "b = 2"}, False, UNKNOWN),
        ("x-consistent-hash", "1", {}, True, "the exchange chose this destination"),
        ("x-modulus-hash", "1", {}, True, "the exchange chose this destination"),
        ("x-random", "", {}, True, "one of 1 by chance"),
    ],
)  # fmt: skip
def test_each_type_gives_its_reason(
    vhost: VirtualHost, type: str, key: str, arguments: dict[str, object], matched: bool, reason: str
) -> None:
    exchange = declare(vhost, "x", type)
    vhost.bind(exchange, new_queue(vhost), key, arguments)
    explanation, findings = explained(exchange, "k", {"a": 1})
    assert reasons(findings) == [("q", matched, reason)]
    assert [queue.name for queue in explanation.queues] == (["q"] if matched else [])


def test_the_default_exchange_goes_by_names(vhost: VirtualHost) -> None:
    new_queue(vhost)
    explanation, findings = explained(vhost.exchanges[""], "q")
    assert reasons(findings) == [("q", True, "the routing key is the queue's name")]
    assert explanation.unroutable_reason is None
    explanation, findings = explained(vhost.exchanges[""], "p")
    assert (findings, explanation.unroutable_reason) == ([], "no queue has the routing key as its name")


def test_the_way_goes_on_through_exchanges_and_alternates(vhost: VirtualHost) -> None:
    first, second = (
        declare(vhost, "first", "direct", **{"alternate-exchange": "spare"}),
        declare(vhost, "second", "topic"),
    )
    declare(vhost, "spare", "fanout")
    vhost.bind(first, second, "k", {})
    vhost.bind(second, new_queue(vhost), "a.#", {})
    explanation, findings = explained(first, "k")
    assert reasons(findings) == [
        ("second", True, "the routing key is 'k'"),
        ("q", False, "'k' does not match 'a.#'"),
    ]
    assert explanation.unroutable_reason == "at exchange 'second' the message matches none of its bindings"
    explanation, findings = explained(first, "a")
    assert findings[1].reason == "no binding of 'first' matches, and this is its alternate exchange"
    assert explanation.unroutable_reason == "at exchange 'spare' the message finds no bindings there"
    vhost.delete_exchange(vhost.exchanges["spare"])
    explanation, _ = explained(first, "a")
    assert explanation.unroutable_reason == (
        "at exchange 'first' the message matches none of its bindings, "
        "and there is no alternate exchange 'spare'"
    )


def test_any_of_the_keys_will_do(vhost: VirtualHost) -> None:
    exchange = declare(vhost, "x", "direct")
    vhost.bind(exchange, new_queue(vhost), "copy", {})
    _, findings = explained(exchange, "k", more_keys=("other", "copy"))
    assert reasons(findings) == [("q", True, "the routing key is 'copy'")]


def test_chance_is_told(vhost: VirtualHost) -> None:
    exchange = declare(vhost, "x", "x-random")
    for name in ("p", "q"):
        vhost.bind(exchange, new_queue(vhost, name), "", {})
    explanation, findings = explained(exchange, "k")
    assert explanation.by_chance
    assert reasons(findings) == [("p", True, "one of 2 by chance"), ("q", True, "one of 2 by chance")]


KEYS = st.sampled_from(["1", "2", "a", "a.b", "*.b", "#"])
TYPES = st.sampled_from(["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash"])
ENDS = st.tuples(st.integers(0, 3), st.integers(0, 7), KEYS, st.sampled_from([{}, {"h": 1}, {"h": 2}]))


@given(
    types=st.lists(TYPES, min_size=4, max_size=4),
    ends=st.lists(ENDS, max_size=15),
    alternates=st.lists(st.sampled_from(["", "x0", "x1", "nowhere"]), min_size=4, max_size=4),
    keys=st.lists(KEYS, min_size=1, max_size=2),
    header=st.integers(1, 2),
)
def test_an_explanation_names_the_queues_of_the_route(
    types: list[str],
    ends: list[tuple[int, int, str, dict[str, object]]],
    alternates: list[str],
    keys: list[str],
    header: int,
) -> None:
    vhost = new_vhost(Loop())
    exchanges = [
        declare(vhost, f"x{i}", type, **({"alternate-exchange": alternate} if alternate else {}))
        for i, (type, alternate) in enumerate(zip(types, alternates, strict=True))
    ]
    places = [*(new_queue(vhost, f"q{i}") for i in range(4)), *exchanges]
    for source, place, key, arguments in ends:
        if types[source] != "x-consistent-hash" or key.isdigit():
            vhost.bind(exchanges[source], places[place], key, arguments)
    message = composed("x0", keys[0], Properties(headers={"h": header}), b"")
    explanation = Explanation(exchanges[0], message, keys[1:])
    list(explanation.findings())
    assert set(explanation.queues) == set(exchanges[0].resolve(keys[0], message, keys[1:])[0])
    assert (explanation.unroutable_reason is None) == bool(explanation.queues)
