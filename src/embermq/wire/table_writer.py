"""Writing field tables: the other half of table.py, which describes the bytes and offers both halves.

The letter follows from the Python type (`encode_table`, `encode_value`) or is given (`encode_typed`). What
cannot be encoded is our mistake: ValueError, or TypeError for a type that has no letter.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from struct import Struct
from struct import error as StructError  # noqa: N812

from embermq.wire.primitive import encode_longstr, encode_shortstr
from embermq.wire.times import MILLISECOND

# A table in a table in a table...; clients nest three or four deep (x-death), this is for attackers.
DEPTH_MAX = 64

# (name, letter, value); a value under "F" is such a list again, one under "A" a list of (letter, value).
TypedField = tuple[str, str, object]
TypedValue = tuple[str, object]


class Timestamp(int):
    """Seconds since 1970, UTC; a class of its own so that it leaves as the timestamp that it came as."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


# The letters whose values have a fixed size.
STRUCTS = {
    letter: Struct(format)
    for letter, format in (
        ("b", ">b"), ("B", ">B"), ("s", ">h"), ("u", ">H"), ("I", ">i"), ("i", ">I"), ("l", ">q"),
        ("L", ">q"), ("f", ">f"), ("d", ">d"), ("t", ">?"), ("T", ">Q"), ("D", ">Bi"),
    )
}  # fmt: skip

_pack_int32 = STRUCTS["I"].pack
_pack_int64 = STRUCTS["l"].pack
_pack_double = STRUCTS["d"].pack
_pack_decimal = STRUCTS["D"].pack
_pack_timestamp = STRUCTS["T"].pack


def encode_table(mapping: Mapping[str, object]) -> bytes:
    """The table with its length in front."""
    return _encode_fields(mapping, 1)


def encode_value(value: object) -> bytes:
    """The letter that fits the Python type, and the value."""
    return _encode_value(value, 0)


def encode_typed(fields: Sequence[TypedField]) -> bytes:
    """The table of `decode_typed`, each value under its own letter again."""
    return _encode_typed_fields(fields, 1)


def _container(parts: list[bytes]) -> bytes:
    return encode_longstr(b"".join(parts))


def _check_depth(depth: int) -> None:
    # What our own peer would refuse we do not send; also ends the recursion into a list that holds itself.
    if depth > DEPTH_MAX:
        raise ValueError(f"field table nested more than {DEPTH_MAX} deep")


def _encode_fields(mapping: Mapping[str, object], depth: int) -> bytes:
    _check_depth(depth)
    parts: list[bytes] = []
    for name, value in mapping.items():
        parts.append(encode_shortstr(name))
        parts.append(_encode_value(value, depth))
    return _container(parts)


def _encode_value(value: object, depth: int) -> bytes:
    if isinstance(value, str):
        return b"S" + encode_longstr(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bool):  # before int, which it is too
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, Timestamp):  # likewise
        return b"T" + _encode_timestamp(value)
    if isinstance(value, int):
        return _encode_int(value)
    if value is None:
        return b"V"
    if isinstance(value, float):
        return b"d" + _pack_double(value)
    if isinstance(value, Mapping):
        return b"F" + _encode_fields(value, depth + 1)
    if isinstance(value, (list, tuple)):
        _check_depth(depth + 1)
        return b"A" + _container([_encode_value(item, depth + 1) for item in value])
    if isinstance(value, (bytes, bytearray)):
        return b"x" + encode_longstr(value)
    if isinstance(value, datetime):
        # Without a zone it counts as UTC, as pika has it.
        return b"T" + _encode_timestamp(timegm(value.utctimetuple()))
    if isinstance(value, Decimal):
        return b"D" + _encode_decimal(value)
    if isinstance(value, timedelta):  # x-message-ttl, x-expires, x-delay: all count milliseconds
        return _encode_int(value // MILLISECOND)
    raise TypeError(f"no field table type for {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return b"I" + _pack_int32(value)
    if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return b"l" + _pack_int64(value)
    raise ValueError(f"integer {value} does not fit 64 bits")


def _encode_timestamp(seconds: int) -> bytes:
    if not 0 <= seconds <= 0xFFFF_FFFF_FFFF_FFFF:
        raise ValueError(f"timestamp {int(seconds)} is outside of 0..2^64-1")
    return _pack_timestamp(seconds)


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"decimal {value} is not a number")
    # A positive exponent is written out as zeros; bounded first, for Decimal("1e999999") is cheap to say.
    if exponent < -255 or exponent > 9 or len(digits) > 10:
        raise ValueError(f"decimal {value} does not fit 32 bits with 255 places")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    if not -0x8000_0000 <= unscaled <= 0x7FFF_FFFF:
        raise ValueError(f"decimal {value} does not fit 32 bits with 255 places")
    return _pack_decimal(max(-exponent, 0), unscaled)


def _encode_typed_fields(fields: Sequence[TypedField], depth: int) -> bytes:
    _check_depth(depth)
    parts: list[bytes] = []
    for name, letter, value in fields:
        parts.append(encode_shortstr(name))
        parts.append(_encode_typed_value(letter, value, depth))
    return _container(parts)


def _encode_typed_value(letter: str, value: object, depth: int) -> bytes:
    prefix = letter.encode("ascii")
    if letter == "F":
        assert isinstance(value, list)
        return prefix + _encode_typed_fields(value, depth + 1)
    if letter == "A":
        assert isinstance(value, list)
        _check_depth(depth + 1)
        return prefix + _container([_encode_typed_value(kind, item, depth + 1) for kind, item in value])
    struct = STRUCTS.get(letter)
    if struct is not None and letter != "D":
        try:
            return prefix + struct.pack(value)
        except StructError as error:
            raise ValueError(f"{value!r} does not fit field type {letter!r}") from error
    plain = _encode_value(value, depth)
    # S, x, V and D have one Python type each; any other letter with such a value is our mistake.
    if plain[:1] != prefix:
        raise ValueError(f"no field table type {letter!r} for {type(value).__name__}")
    return plain
