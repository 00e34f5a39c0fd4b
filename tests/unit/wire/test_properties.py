"""The properties of a message: round trips, absence, flag words, truncation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.errors import AMQPError, SyntaxFault
from embermq.wire.properties import Properties
from tests.support.wire_strategies import properties


@settings(max_examples=200, deadline=None)
@given(properties, st.binary(max_size=5), st.binary(max_size=5))
def test_properties_come_back_as_they_were(expected: Properties, before: bytes, after: bytes) -> None:
    data = expected.encode()
    buffer = before + data + after
    start, end = len(before), len(before) + len(data)
    assert Properties.decode(buffer, start, end) == expected
    assert Properties.decode(bytearray(buffer), start, end) == expected
    assert Properties.decode(buffer, start, end).encode() == data


@settings(max_examples=80, deadline=None)
@given(properties)
def test_every_truncation_and_every_excess_is_a_syntax_fault(whole: Properties) -> None:
    data = whole.encode()
    for cut in range(len(data)):
        with pytest.raises(SyntaxFault):
            Properties.decode(data[:cut], 0, cut)
        with pytest.raises(SyntaxFault):
            Properties.decode(data, 0, cut)
    with pytest.raises(SyntaxFault):
        Properties.decode(data + b"\0", 0, len(data) + 1)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_amqp_errors(data: bytes) -> None:
    try:
        decoded = Properties.decode(data, 0, len(data))
    except AMQPError:
        return
    again = decoded.encode()
    assert Properties.decode(again, 0, len(again)) == decoded


def test_bytes_are_those_of_the_specification() -> None:
    assert Properties().encode() == b"\0\0"
    text = Properties(content_type="text/plain", delivery_mode=2, priority=5, timestamp=1)
    assert text.encode() == bytes.fromhex("9840 0a 746578742f706c61696e 02 05 0000000000000001")
    assert Properties(cluster_id="c").encode() == bytes.fromhex("0004 01 63")
    assert Properties(headers={}).encode() == bytes.fromhex("2000 00000000")


def test_absent_is_not_empty() -> None:
    empty = Properties(content_type="", headers={}, priority=0, timestamp=0)
    assert empty != Properties()
    data = empty.encode()
    assert Properties.decode(data, 0, len(data)) == empty


def test_empty_flag_words_may_follow() -> None:
    data = bytes.fromhex("8001 0001 0000 01 61")
    assert Properties.decode(data, 0, len(data)) == Properties(content_type="a")


@pytest.mark.parametrize("wire", ["8002 01 61", "8001 8000 01 61", "0001 0002", "0001", "0001 0001"])
def test_flags_of_unknown_properties_are_a_syntax_fault(wire: str) -> None:
    data = bytes.fromhex(wire)
    with pytest.raises(SyntaxFault):
        Properties.decode(data, 0, len(data))


def test_repr_shows_what_is_there() -> None:
    assert repr(Properties(content_type="a", priority=0)) == "Properties(content_type='a', priority=0)"


def test_properties_equal_nothing_else() -> None:
    assert Properties() != object()
    assert not hasattr(Properties(), "__dict__")
