"""Headers exchanges: x-match all and any, presence, and the variants that look at x- headers."""

from typing import Any

import pytest

from tests.conformance.model import drain, exchange
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec

match_all = rule(
    "002", "3.1.3.4", "headers/all", "x-match all: every pair of the binding is among the headers"
)
match_any = rule("002", "3.1.3.4", "headers/any", "x-match any: at least one pair is among the headers")
presence = rule("002", "3.1.3.4", "headers/presence", "A binding field without a value matches any value")
reserved = rule(
    "002", "3.1.3.4", "headers/x-ignored", "Other fields beginning with x- are ignored when matching"
)
with_x = rule(
    "004",
    "headers",
    "headers/with-x",
    "all-with-x and any-with-x match like all and any, x- fields included",
    "MAY",
)
invalid = rule("004", "headers", "headers/x-match-invalid", "Any other x-match is refused with 406 at bind")


def routed(channel: RawChannel, arguments: dict[str, Any], headers: dict[str, Any] | None) -> bool:
    """Whether a message with these headers reaches a queue bound with these arguments."""
    name, queue = exchange(channel, "headers"), channel.declare()
    channel.bind(queue, name, "the key does not count", arguments=arguments)
    properties = spec.Basic.Properties(headers=headers)
    channel.publish(b"matched", exchange=name, routing_key="another key", properties=properties)
    return drain(channel, queue) == [b"matched"]


@match_all
@pytest.mark.parametrize("x_match", [{}, {"x-match": "all"}], ids=["default", "all"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"a": "1", "b": 2}, True),
        ({"a": "1", "b": 2, "c": True}, True),
        ({"a": "1"}, False),
        ({"a": "1", "b": 3}, False),
        ({"A": "1", "b": 2}, False),
        ({"a": "1 ", "b": 2}, False),
        ({}, False),
        (None, False),
    ],
)
def test_all(
    channel: RawChannel, x_match: dict[str, str], headers: dict[str, Any] | None, expected: bool
) -> None:
    assert routed(channel, {**x_match, "a": "1", "b": 2}, headers) is expected


@match_all
@pytest.mark.parametrize(
    "value", ["text", "", 7, -7, 2**40, True, False, 1.5, [1, "two"], {"nested": {"t": 1}}]
)
def test_values_of_all_types_match_themselves(channel: RawChannel, value: Any) -> None:
    assert routed(channel, {"field": value}, {"field": value})
    assert not routed(channel, {"field": value}, {"field": "something else"})


@match_all
def test_a_number_is_not_its_text(channel: RawChannel) -> None:
    assert not routed(channel, {"field": 1}, {"field": "1"})
    assert not routed(channel, {"field": "1"}, {"field": 1})


@match_any
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"a": "1", "b": 2}, True),
        ({"a": "1"}, True),
        ({"b": 2, "c": 3}, True),
        ({"a": "1", "b": 3}, True),
        ({"a": "2", "b": 3}, False),
        ({"c": "1"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_any(channel: RawChannel, headers: dict[str, Any] | None, expected: bool) -> None:
    assert routed(channel, {"x-match": "any", "a": "1", "b": 2}, headers) is expected


@match_all
@match_any
def test_bindings_without_fields(channel: RawChannel) -> None:
    """Nothing to match: all of nothing is true, any of nothing is false."""
    assert routed(channel, {"x-match": "all"}, {"a": 1})
    assert routed(channel, {}, None)
    assert not routed(channel, {"x-match": "any"}, {"a": 1})


@presence
@pytest.mark.parametrize("x_match", ["all", "any"])
def test_void_matches_presence(channel: RawChannel, x_match: str) -> None:
    for value in ("text", 1, None, {}):
        assert routed(channel, {"x-match": x_match, "a": None}, {"a": value})
    assert not routed(channel, {"x-match": x_match, "a": None}, {"b": 1})


@presence
def test_void_beside_values(channel: RawChannel) -> None:
    arguments = {"x-match": "all", "present": None, "level": "high"}
    assert routed(channel, arguments, {"present": 0, "level": "high"})
    assert not routed(channel, arguments, {"level": "high"})
    assert not routed(channel, arguments, {"present": 0, "level": "low"})


@reserved
def test_x_fields_are_ignored_by_all_and_any(channel: RawChannel) -> None:
    assert routed(channel, {"x-match": "all", "a": 1, "x-extra": 1}, {"a": 1})
    assert not routed(channel, {"x-match": "any", "a": 1, "x-extra": 1}, {"x-extra": 1})


@with_x
def test_x_fields_count_with_x(channel: RawChannel) -> None:
    both = {"a": 1, "x-extra": 1}
    assert routed(channel, {"x-match": "all-with-x", **both}, both)
    assert not routed(channel, {"x-match": "all-with-x", **both}, {"a": 1})
    assert routed(channel, {"x-match": "any-with-x", **both}, {"x-extra": 1})
    assert routed(channel, {"x-match": "any-with-x", **both}, {"a": 1})
    assert not routed(channel, {"x-match": "any-with-x", **both}, {"b": 1})


@invalid
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "bogus",
            'Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x',
        ),
        (100_000, "Invalid x-match field type signedint (value 100000); expected longstr"),
    ],
)
def test_invalid_x_match(channel: RawChannel, value: Any, text: str) -> None:
    queue = channel.declare()
    request = spec.Queue.Bind(queue=queue, exchange="amq.headers", arguments={"x-match": value})
    channel.call_fails(request, 406, f"PRECONDITION_FAILED - {text}")


@match_all
@match_any
@rule(
    "001", "1.7.2.5.5", "queue.unbind.arguments", "Unbinding takes the binding with the same arguments away"
)
def test_bindings_with_different_arguments_are_different(channel: RawChannel) -> None:
    name, queue = exchange(channel, "headers"), channel.declare()
    first, second = {"x-match": "all", "a": 1}, {"x-match": "all", "b": 1}
    for arguments in (first, second, first):
        channel.bind(queue, name, arguments=arguments)
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, arguments=first))
    for header in ("a", "b"):
        properties = spec.Basic.Properties(headers={header: 1})
        channel.publish(header.encode(), exchange=name, properties=properties)
    assert drain(channel, queue) == [b"b"]


@rule("002", "3.1.3.4", "headers/amq.match", "amq.match and amq.headers are headers exchanges")
@pytest.mark.parametrize("name", ["amq.match", "amq.headers"])
def test_predeclared_headers_exchanges(channel: RawChannel, name: str) -> None:
    queue = channel.declare()
    channel.bind(queue, name, arguments={"x-match": "all", "for": queue})
    channel.publish(b"x", exchange=name, properties=spec.Basic.Properties(headers={"for": queue}))
    assert drain(channel, queue) == [b"x"]
