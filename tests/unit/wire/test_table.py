"""Field tables: every letter, every lie about a length, depth, duplicates; four readers that agree."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embermq.errors import SyntaxFault
from embermq.wire.field_scan import FieldScan
from embermq.wire.table import (
    DEPTH_MAX,
    Timestamp,
    TypedField,
    decode_table,
    decode_typed,
    decode_value,
    encode_table,
    encode_typed,
    encode_value,
)
from tests.support.wire_strategies import tables, typed_tables, values

check_table = FieldScan(()).read


def with_length(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def field(letter_and_value: bytes, name: bytes = b"a") -> bytes:
    """A table with one field."""
    return with_length(bytes((len(name),)) + name + letter_and_value)


def assert_refused(data: bytes, end: int | None = None) -> None:
    """All readers refuse it, whichever kind of buffer holds it."""
    end = len(data) if end is None else end
    for read in (decode_table, check_table, decode_typed):
        for buffer in (data, bytearray(data)):
            with pytest.raises(SyntaxFault):
                read(buffer, 0, end)


def untyped(fields: list[TypedField]) -> dict[str, object]:
    def strip(letter: str, value: object) -> object:
        if letter == "F":
            assert isinstance(value, list)
            return untyped(value)
        if letter == "A":
            assert isinstance(value, list)
            return [strip(*item) for item in value]
        return value

    return {name: strip(letter, value) for name, letter, value in fields}


@settings(max_examples=200, deadline=None)
@given(tables, st.binary(max_size=5), st.binary(max_size=5))
def test_tables_come_back_as_they_were(table: dict[str, object], before: bytes, after: bytes) -> None:
    data = encode_table(table)
    stop = len(before) + len(data)
    for buffer in (before + data + after, bytearray(before + data + after)):
        assert decode_table(buffer, len(before), len(buffer)) == (table, stop)
        assert check_table(buffer, len(before), len(buffer)) == stop
        typed, typed_stop = decode_typed(buffer, len(before), len(buffer))
        assert (untyped(typed), typed_stop) == (table, stop)
        assert encode_typed(typed) == data


@settings(max_examples=200, deadline=None)
@given(typed_tables)
def test_typed_tables_keep_every_letter(fields: list[TypedField]) -> None:
    data = encode_typed(fields)
    assert decode_typed(data, 0, len(data)) == (fields, len(data))
    assert decode_table(bytearray(data), 0, len(data)) == (untyped(fields), len(data))
    assert check_table(data, 0, len(data)) == len(data)


@settings(max_examples=100, deadline=None)
@given(values)
def test_single_values_come_back_as_they_were(value: object) -> None:
    data = encode_value(value)
    assert decode_value(data, 0, len(data)) == (value, len(data))
    assert decode_value(bytearray(b"?" + data), 1, 1 + len(data)) == (value, 1 + len(data))
    for cut in range(len(data)):
        with pytest.raises(SyntaxFault):
            decode_value(data, 0, cut)


@settings(max_examples=60, deadline=None)
@given(typed_tables)
def test_every_truncation_is_a_syntax_fault(fields: list[TypedField]) -> None:
    data = encode_typed(fields)
    for cut in range(len(data)):
        assert_refused(data[:cut])
        assert_refused(data, end=cut)


def outcome(read: object, data: bytes) -> object:
    """What a reader makes of the bytes: where it stopped, or the fault's text."""
    try:
        result = read(data, 0, len(data))  # type: ignore[operator]
    except SyntaxFault as fault:
        return fault.detail
    return result if isinstance(result, int) else result[1]


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(with_length)))
@example(field(b"S\xff\xff\xff\xff"))
@example(field(b"F\x80\x00\x00\x00"))
def test_on_random_bytes_all_readers_agree(data: bytes) -> None:
    verdict = outcome(decode_table, data)
    assert outcome(check_table, data) == outcome(decode_typed, data) == verdict
    assert outcome(check_table, bytearray(data)) == outcome(decode_table, bytearray(data)) == verdict


@settings(max_examples=300, deadline=None)
@given(typed_tables.filter(bool), st.data())
def test_on_a_flipped_byte_all_readers_agree(fields: list[TypedField], data: st.DataObject) -> None:
    damaged = bytearray(encode_typed(fields))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    verdict = outcome(decode_table, damaged)
    assert outcome(check_table, damaged) == outcome(decode_typed, damaged) == verdict


# Written out by hand: letter, bytes, value.
GOLDEN = [
    ("b", "ff", -1),
    ("B", "ff", 255),
    ("s", "fffe", -2),
    ("u", "fffe", 65534),
    ("I", "ffffffff", -1),
    ("i", "ffffffff", 2**32 - 1),
    ("l", "ffffffffffffffff", -1),
    ("L", "8000000000000000", -(2**63)),
    ("t", "01", True),
    ("f", "3fc00000", 1.5),
    ("d", "3ff8000000000000", 1.5),
    ("D", "02 ffffff85", Decimal("-1.23")),
    ("S", "00000002 c3bc", "ü"),
    ("S", "00000001 ff", "\udcff"),
    ("T", "0000000065000000", Timestamp(0x65000000)),
    ("V", "", None),
    ("x", "00000002 00ff", b"\x00\xff"),
    ("A", "00000003 62 01 56", [1, None]),
    ("F", "00000004 01 61 62 07", {"a": 7}),
]


@pytest.mark.parametrize(("letter", "wire", "value"), GOLDEN, ids=[f"{row[0]}-{row[1]}" for row in GOLDEN])
def test_letters_mean_what_rabbitmq_means(letter: str, wire: str, value: object) -> None:
    data = field(letter.encode() + bytes.fromhex(wire))
    decoded = decode_table(data, 0, len(data))[0]["a"]
    assert decoded == value
    assert type(decoded) is type(value)
    typed = decode_typed(data, 0, len(data))[0]
    assert typed[0][:2] == ("a", letter)
    assert encode_typed(typed) == data


@pytest.mark.parametrize("code", [code for code in range(256) if chr(code) not in "bBsuIilLtfdDSATFVx"])
def test_unknown_letters_are_refused(code: int) -> None:
    assert_refused(field(bytes((code,)) + bytes(20)))


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (True, "7401"),
        (0, "4900000000"),
        (2**31 - 1, "497fffffff"),
        (2**31, "6c0000000080000000"),
        (-(2**31) - 1, "6cffffffff7fffffff"),
        (1.5, "643ff8000000000000"),
        ("é", "5300000002c3a9"),
        (bytearray(b"\x01"), "780000000101"),
        (None, "56"),
        ((1, True), "4100000007 4900000001 7401"),
        (Decimal("1.50"), "440200000096"),
        (Decimal("2e3"), "4400000007d0"),
        (Timestamp(1), "540000000000000001"),
        (datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC), "540000000000000009"),
        (datetime(1970, 1, 1, 1, 0, 9, tzinfo=timezone(timedelta(hours=1))), "540000000000000009"),
        (datetime(1970, 1, 1, 0, 0, 9), "540000000000000009"),  # noqa: DTZ001
    ],
)
def test_python_types_choose_their_letter(value: object, wire: str) -> None:
    assert encode_value(value) == bytes.fromhex(wire)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Timestamp(-1),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(2**31),
        Decimal("1e999999999"),  # must not be written out before it is refused
        Decimal(1).scaleb(-256),
        {"n" * 256: 1},
    ],
)
def test_what_does_not_fit_is_our_mistake(value: object) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, [range(3)]])
def test_types_without_a_letter_are_our_mistake(value: object) -> None:
    with pytest.raises(TypeError):
        encode_value(value)


@pytest.mark.parametrize(
    "fields", [[("a", "b", 128)], [("a", "S", b"no text")], [("a", "x", "no bytes")], [("a", "?", 1)]]
)
def test_typed_values_must_fit_their_letter(fields: list[TypedField]) -> None:
    with pytest.raises(ValueError):
        encode_typed(fields)


def test_not_a_number_travels() -> None:
    data = encode_table({"n": math.nan, "i": -math.inf})
    decoded = decode_table(data, 0, len(data))[0]
    assert math.isnan(decoded["n"])  # type: ignore[arg-type]
    assert decoded["i"] == -math.inf


def test_duplicate_names_are_refused_at_every_level() -> None:
    twice = b"\x01aV\x01aV"
    assert_refused(with_length(twice))
    assert_refused(field(b"F" + with_length(twice)))
    assert_refused(field(b"A" + with_length(b"F" + with_length(twice))))
    # The same name on different levels is no duplicate, nor is "A" one of "a".
    fine = with_length(b"\x01aF" + with_length(b"\x01aV") + b"\x01AV")
    assert decode_table(fine, 0, len(fine))[0] == {"a": {"a": None}, "A": None}
    assert check_table(fine, 0, len(fine)) == len(fine)


def nested(letter: bytes, depth: int) -> bytes:
    """A table that counts as the first level, with `depth - 1` tables or arrays inside each other."""
    prefix = b"\x00F" if letter == b"F" else b"A"
    content = b""
    for _ in range(depth - 2):
        content = prefix + with_length(content)
    return field(letter + with_length(content), name=b"")


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_depth_is_bounded(letter: bytes) -> None:
    deepest = nested(letter, DEPTH_MAX)
    assert check_table(deepest, 0, len(deepest)) == len(deepest)
    assert encode_table(decode_table(deepest, 0, len(deepest))[0]) == deepest
    assert encode_typed(decode_typed(deepest, 0, len(deepest))[0]) == deepest
    assert_refused(nested(letter, DEPTH_MAX + 1))
    assert_refused(nested(letter, 20_000))


def test_what_nests_too_deep_is_not_sent() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="deep"):
        encode_value(endless)
    tower: dict[str, object] = {}
    for _ in range(DEPTH_MAX):
        tower = {"t": tower}
    with pytest.raises(ValueError, match="deep"):
        encode_table(tower)


@pytest.mark.parametrize("length", [1, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("letter", [b"S", b"x", b"A", b"F"])
def test_lengths_that_lie_are_refused(letter: bytes, length: int) -> None:
    """2^31 and more would turn negative in a C int."""
    assert_refused(field(letter + length.to_bytes(4, "big")))
    assert_refused(length.to_bytes(4, "big"))


def test_an_inner_table_may_not_reach_beyond_the_outer() -> None:
    inner = b"F" + (5).to_bytes(4, "big") + b"\x01b"  # claims 5 bytes, 2 are left in the outer table
    assert_refused(field(inner) + b"bbbbbbbb")


def test_field_names_are_not_restricted() -> None:
    table = {"__TypeId__": 1, "": 2, "with space": 3, "ü" * 127: 4, "\udcff": 5}
    data = encode_table(table)
    assert decode_table(data, 0, len(data))[0] == table
