"""Chained bindings: a message comes through where every exchange of the chain has a binding that matches.

The model is a plain boolean one: a set of bindings, each a path of exchanges, a destination and a condition.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.exchange.binding import via_names, whole_paths
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.exchange.explain import Explanation
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import composed
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from embermq.errors import NotFound, PreconditionFailed
from embermq.wire.properties import Properties
from tests.support.domain import Loop, new_queue, new_vhost


@pytest.fixture
def vhost() -> VirtualHost:
    return new_vhost(Loop())


def declare(
    vhost: VirtualHost, name: str, type: str, *, durable: bool = False, **arguments: object
) -> Exchange:
    return vhost.declare_exchange(
        name, type, durable=durable, auto_delete=False, internal=False, arguments=arguments
    )


def reached(exchange: Exchange, key: str, headers: dict[str, object] | None = None) -> set[str]:
    """By a kept route where there is one."""
    message = composed(exchange.name, key, Properties(headers=headers), b"")
    route = exchange.route(message.names, key)
    return {queue.name for queue in (route.anew(message) if route.varies else route.queues)}


def test_both_conditions_must_hold(vhost: VirtualHost) -> None:
    topic, headers, queue = vhost.exchanges["amq.topic"], vhost.exchanges["amq.headers"], new_queue(vhost)
    vhost.bind(headers, queue, "", {"x-via": "amq.topic", "type": "pdf"})
    assert reached(topic, "stock.usd", {"type": "pdf"}) == set()  # the first condition is missing
    vhost.bind(topic, queue, "stock.*", {})
    assert reached(topic, "stock.usd", {"type": "pdf"}) == {"q"}
    assert reached(topic, "stock.usd", {"type": "txt"}) == set()
    assert reached(topic, "bond.usd", {"type": "pdf"}) == set()
    assert reached(headers, "stock.usd", {"type": "pdf"}) == set()  # it is asked only via the first
    vhost.unbind(headers, queue, "", {"x-via": "amq.topic", "type": "pdf"})
    assert reached(topic, "stock.usd") == {"q"}
    assert topic.chain is None and not topic.via_here and not headers.sources


def test_a_route_is_kept_where_the_key_alone_decides(vhost: VirtualHost) -> None:
    topic, direct, queue = vhost.exchanges["amq.topic"], vhost.exchanges["amq.direct"], new_queue(vhost)
    other = new_queue(vhost, "other")
    vhost.bind(topic, queue, "stock.*", {})
    vhost.bind(direct, queue, "stock.usd", {"x-via": ["amq.topic"]})
    assert topic.route(b"", "stock.usd").queues == (queue,)
    assert topic.route(b"", "stock.eur").queues == ()
    vhost.bind(topic, other, "bond", {})
    vhost.bind(vhost.exchanges["amq.headers"], queue, "", {"x-via": ["amq.topic"], "type": "pdf"})
    assert not topic.route(b"", "bond").varies and topic.route(b"", "bond").queues == (other,)
    assert topic.route(b"", "stock.usd").varies


def test_the_alternate_gets_what_no_whole_rule_takes(vhost: VirtualHost) -> None:
    first = declare(vhost, "first", "fanout", **{"alternate-exchange": "amq.fanout"})
    vhost.bind(first, new_queue(vhost), "", {})
    vhost.bind(vhost.exchanges["amq.direct"], vhost.queues["q"], "k", {"x-via": "first"})
    vhost.bind(vhost.exchanges["amq.fanout"], new_queue(vhost, "spare"), "", {})
    assert reached(first, "k") == {"q"}
    assert reached(first, "j") == {"spare"}


@pytest.mark.parametrize(
    ("via", "text"),
    [
        (5, "invalid arg 'x-via': {unacceptable_type,signedint}"),
        (["a", None], "invalid arg 'x-via': {unacceptable_type,void}"),
        ([], "invalid arg 'x-via': 1 to 8 exchanges, not 0"),
        (["a"] * 9, "invalid arg 'x-via': 1 to 8 exchanges, not 9"),
    ],
)
def test_what_is_no_chain_is_refused(via: object, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        via_names({"x-via": via})
    assert refused.value.detail == text


def test_the_exchanges_of_a_chain_must_be_there(vhost: VirtualHost) -> None:
    with pytest.raises(NotFound):
        vhost.bind(vhost.exchanges["amq.topic"], new_queue(vhost), "", {"x-via": "nothing"})


def test_a_chain_does_not_lose_a_condition_in_a_restart(vhost: VirtualHost) -> None:
    transient, queue = declare(vhost, "transient", "topic"), new_queue(vhost, durable=True)
    with pytest.raises(PreconditionFailed, match="exchange 'transient' is not durable"):
        vhost.bind(transient, queue, "", {"x-via": "amq.topic"})
    vhost.bind(vhost.exchanges["amq.topic"], queue, "", {"x-via": "transient"})
    vhost.bind(transient, new_queue(vhost, "transient"), "", {"x-via": "amq.topic"})


def test_with_an_exchange_go_the_rules_that_it_is_part_of(vhost: VirtualHost) -> None:
    topic, queue = vhost.exchanges["amq.topic"], new_queue(vhost)
    second, third = declare(vhost, "second", "fanout"), declare(vhost, "third", "fanout")
    vhost.bind(topic, queue, "#", {})
    vhost.bind(second, queue, "", {"x-via": "amq.topic"})
    vhost.bind(third, queue, "", {"x-via": "amq.topic"})
    vhost.delete_exchange(second)
    assert reached(topic, "k") == {"q"}  # by the other one
    vhost.delete_exchange(third)
    assert reached(topic, "k") == set()
    assert not topic.bindings and not vhost.queue_bindings[queue]


def test_paths_that_led_on_go_with_what_they_led_to() -> None:
    paths = {("a",), ("a", "b"), ("a", "b", "c"), ("a", "d"), ("e",)}
    assert whole_paths(paths, lambda path: "c" in path) == {("a",), ("a", "d"), ("e",)}
    assert whole_paths(paths, lambda path: "b" in path or "d" in path) == {("e",)}
    assert whole_paths(paths, lambda path: False) == paths


# -- against the model

EXCHANGES = ("direct", "topic", "fanout", "headers", "x-selector", "x-consistent-hash", "x-modulus-hash")
KEYS = ("a", "a.b", "1")
NUMBER = st.integers(0, len(EXCHANGES) - 1)


class Wire(NamedTuple):
    path: tuple[str, ...]
    destination: str
    key: str
    arguments: tuple[tuple[str, object], ...]

    def given(self) -> dict[str, object]:
        via = self.path[:-1]
        return dict(self.arguments) | ({"x-via": list(via)} if via else {})


CONDITIONS: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {
    "direct": (("a", {}), ("a.b", {}), ("1", {})),
    "topic": (("a.#", {}), ("*", {}), ("#", {})),
    "fanout": (("", {}),),
    "headers": (("", {"h": 1}), ("", {"h": 2, "x-match": "any", "i": 1}), ("", {})),
    "x-selector": (("", {"x-selector": "h = 1"}), ("", {"x-selector": "h < 2 OR i = 1"})),
    "x-consistent-hash": (("1", {}), ("3", {})),
    "x-modulus-hash": (("1", {}),),
}
DESTINATIONS = ("q0", "q1", "q2", "fanout")


# Any at all, and a few that are often drawn, so that chains become whole.
PATHS = st.lists(st.sampled_from(EXCHANGES), min_size=1, max_size=3) | st.sampled_from(
    [["topic", "headers", "x-selector"][:size] for size in (1, 2, 3)]
    + [["fanout", "x-consistent-hash"][:size] for size in (1, 2)]
    + [["topic", "x-modulus-hash"], ["direct"], ["direct", "direct"]]
)


@st.composite
def wires(draw: st.DrawFn) -> Wire:
    path = draw(PATHS)
    key, arguments = draw(st.sampled_from(CONDITIONS[path[-1]]))
    return Wire(tuple(path), draw(st.sampled_from(DESTINATIONS)), key, tuple(arguments.items()))


class Model:
    """The bindings as a set; what of them matches by itself is asked of exchanges that have nothing else."""

    def __init__(self) -> None:
        self.wires: set[Wire] = set()
        self.exchanges = set(EXCHANGES)

    def matching(self, path: tuple[str, ...], message: Message, key: str) -> set[str]:
        """The destinations of one path whose conditions hold: of an exchange with only these bindings."""
        vhost = new_vhost(Loop())
        exchange = declare(vhost, path[-1], path[-1])
        here = [wire for wire in self.wires if wire.path == path]
        for wire in here:
            name = wire.destination
            if name in EXCHANGES:
                end: Queue | Exchange = vhost.exchanges.get(name) or declare(vhost, name, name)
            else:
                end = vhost.queues.get(name) or new_queue(vhost, name)
            vhost.bind(exchange, end, wire.key, dict(wire.arguments))
        return {destination.name for destination in exchange.matcher.match(key, message)}

    def through(self, path: tuple[str, ...], message: Message, key: str) -> set[str]:
        found = self.matching(path, message, key)
        longer = {wire.path[: len(path) + 1] for wire in self.wires if wire.path[: len(path)] == path}
        longer.discard(path)
        bound = {w.destination for w in self.wires if len(w.path) > len(path) and w.path[: len(path)] == path}
        passed: set[str] = set().union(*(self.through(further, message, key) for further in longer))
        return {name for name in found if name not in bound or name in passed}

    def queues(self, first: str, message: Message, key: str) -> set[str]:
        exchanges, found = [first], set()
        for exchange in exchanges:
            for name in self.through((exchange,), message, key):
                if name not in EXCHANGES:
                    found.add(name)
                elif name not in exchanges:
                    exchanges.append(name)
        return found

    def delete_exchange(self, name: str) -> None:
        self.exchanges.discard(name)
        self.wires = {wire for wire in self.wires if wire.destination != name}
        kept: set[Wire] = set()
        for destination in DESTINATIONS:
            mine = {wire for wire in self.wires if wire.destination == destination}
            gone = {wire for wire in mine if name in wire.path}
            while True:
                left = mine - gone
                more = {
                    wire
                    for wire in left
                    if any(extends(other, wire) for other in mine)
                    and not any(extends(other, wire) for other in left)
                }
                if not more:
                    break
                gone |= more
            kept |= mine - gone
        self.wires = kept


def extends(longer: Wire, wire: Wire) -> bool:
    return len(longer.path) > len(wire.path) and longer.path[: len(wire.path)] == wire.path


@given(
    wired=st.lists(st.tuples(st.just("bind"), wires()), min_size=6, max_size=16),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("bind"), wires()),
            st.tuples(st.just("unbind"), st.integers(0, 99)),
            st.tuples(st.sampled_from(["delete queue", "delete exchange"]), NUMBER),
        ),
        max_size=12,
    ),
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=2),
    header=st.integers(1, 2),
)
def test_routes_are_those_of_the_model(
    wired: list[tuple[str, Wire]], steps: list[tuple[str, object]], keys: list[str], header: int
) -> None:
    loop = Loop()
    vhost, model = new_vhost(loop), Model()
    for type in EXCHANGES:
        declare(vhost, type, type)
    for number in range(3):
        new_queue(vhost, f"q{number}")

    def end(name: str) -> Queue | Exchange | None:
        return vhost.exchanges.get(name) if name in EXCHANGES else vhost.queues.get(name)

    for action, what in [*wired, *steps]:
        if isinstance(what, Wire):
            destination = end(what.destination)
            if destination is not None and model.exchanges.issuperset(what.path):
                vhost.bind(vhost.exchanges[what.path[-1]], destination, what.key, what.given())
                model.wires.add(what)
        elif action == "unbind" and model.wires:
            assert isinstance(what, int)
            wire = sorted(model.wires)[what % len(model.wires)]
            destination = end(wire.destination)
            assert destination is not None
            vhost.unbind(vhost.exchanges[wire.path[-1]], destination, wire.key, wire.given())
            model.wires.discard(wire)
        elif action == "delete queue" and (queue := vhost.queues.get(f"q{what}")) is not None:
            vhost.delete_queue(queue)
            model.wires = {wire for wire in model.wires if wire.destination != f"q{what}"}
        elif action == "delete exchange" and isinstance(what, int) and EXCHANGES[what] in model.exchanges:
            vhost.delete_exchange(vhost.exchanges[EXCHANGES[what]])
            model.delete_exchange(EXCHANGES[what])
        loop.run()
        for name in sorted(model.exchanges):
            for key in keys:
                headers: dict[str, object] = {"h": header}
                message = composed(name, key, Properties(headers=headers), b"")
                expected = model.queues(name, message, key)
                assert reached(vhost.exchanges[name], key, headers) == expected, (action, what, name)
                explanation = Explanation(vhost.exchanges[name], message)
                list(explanation.findings())
                assert {queue.name for queue in explanation.queues} == expected
    bound = {binding for exchange in vhost.exchanges.values() for binding in exchange.bindings.values()}
    assert len(bound) == len(model.wires)
