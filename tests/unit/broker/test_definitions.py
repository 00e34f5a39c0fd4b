"""Definitions there and back again: arguments of all types keep their value and kind."""

from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import given

from embermq.broker.definitions import (
    packed,
    permission_from,
    unpacked,
    user_body,
    user_from,
)
from embermq.broker.exchange.binding import Binding
from embermq.broker.security.user import Permission, User
from embermq.wire.table import Timestamp
from tests.support import wire_strategies as strategies
from tests.support.domain import Loop, new_queue, new_vhost


def there_and_back(arguments: dict[str, object]) -> dict[str, object]:
    """By way of JSON text, as the store keeps it."""
    return unpacked(json.loads(json.dumps(packed(arguments))))


def kinds(value: object) -> object:
    """A value with the types of everything in it, so that 1, True and 1.0 are told apart."""
    if isinstance(value, dict):
        return {name: kinds(item) for name, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return (type(value).__name__, value)


@given(arguments=strategies.tables)
def test_arguments_come_back_as_they_were(arguments: dict[str, object]) -> None:
    assert kinds(there_and_back(arguments)) == kinds(arguments)


def test_every_type_once() -> None:
    arguments: dict[str, object] = {
        "int": 5,
        "large": 2**62,
        "negative": -1,
        "bool": True,
        "text": "plain",
        "lines": "a\nb\u2028",
        "octets": "\udcff",
        "bytes": b"\x00\xff",
        "float": 0.1,
        "decimal": Decimal("1.50"),
        "time": Timestamp(1_700_000_000),
        "nothing": None,
        "table": {"a": {"b": []}},
        "list": [1, "x", None],
    }
    assert kinds(there_and_back(arguments)) == kinds(arguments)
    for name, value in arguments.items():
        assert kinds(there_and_back({name: value})) == kinds({name: value})
    assert packed({}) == {} and there_and_back({}) == {}
    assert packed({"x-max-length": 5}) == {"arguments": {"x-max-length": 5}}, (
        "readable where that says it all"
    )


def test_users_and_permissions() -> None:
    user = User.with_password("ann", "secret", tags=frozenset({"b", "a"}), loopback_only=True)
    back = user_from("ann", json.loads(json.dumps(user_body(user))))
    assert back.secret == user.secret and back.secret.fits(b"secret") and not back.secret.fits(b"other")
    assert (back.name, back.tags, back.loopback_only) == ("ann", {"a", "b"}, True)
    permission = Permission("a", "b", "")
    assert permission_from(json.loads(json.dumps(permission.patterns))).patterns == permission.patterns


def test_names_of_bindings_tell_them_apart() -> None:
    vhost = new_vhost(Loop())
    queue, direct = new_queue(vhost), vhost.exchanges["amq.direct"]
    same_name = vhost.declare_exchange(
        "q", "fanout", durable=False, auto_delete=False, internal=False, arguments={}
    )
    bindings = [
        Binding(direct, queue, "k", {}),
        Binding(direct, same_name, "k", {}),
        Binding(direct, queue, "K", {}),
        Binding(direct, queue, "k\udcff", {}),
        Binding(direct, queue, "k", {"a": 1}),
        Binding(direct, queue, "k", {"a": True}),
        Binding(direct, queue, "k", {"a": "1"}),
        Binding(direct, queue, "k", {"a": b"1"}),
        Binding(vhost.exchanges["amq.fanout"], queue, "k", {}),
    ]
    names = {binding.definition_name() for binding in bindings}
    assert len(names) == len(bindings)
    for name in names:
        name.encode()  # SQLite takes text only


def test_bodies_are_json() -> None:
    vhost = new_vhost(Loop())
    exchange = vhost.exchanges["amq.topic"]
    queue = new_queue(vhost, durable=True, arguments={"a": b"\xff"})
    for body in (exchange.definition(), queue.definition(), Binding(exchange, queue, "", {}).definition()):
        assert json.loads(json.dumps(body)) == body
