"""Field tables: names with typed values, as RabbitMQ and its clients really send them.

    table  = length (4)  { name: short string, letter (1), value }*
    array  = length (4)  { letter (1), value }*

    b B   int8, uint8       I i   int32, uint32     f d   float, double     A   array
    s u   int16, uint16     l L   int64             D     decimal           F   table
    t     bool              T     timestamp         S     text              V   nothing
                                                    x     bytes

(The letters printed in the specification of 0-9-1 differ; no client follows them.)

Three ways in: `decode_table` gives a plain dict; `check_table` accepts and refuses exactly the same bytes but
builds nothing, for the path of a message; `decode_typed` keeps every value's letter, so that `encode_typed`
writes back what came (a re-published message must not turn a client's int16 into an int32).

Invariants: no byte at or after `end` is read; containers nest at most DEPTH_MAX deep; whatever a peer sends,
the only exception is SyntaxFault. What we cannot encode is our mistake: ValueError or TypeError.

Field names are any bytes up to 255. The specification wants a letter first and 128 characters at most, yet
real clients send "__TypeId__" (Spring), and RabbitMQ lets them.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from struct import Struct

from embermq.errors import SyntaxFault
from embermq.wire.primitive import Buffer, encode_longstr, encode_shortstr

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


# Values of a fixed size: how many bytes each letter takes. Not fixed, or no letter at all: 255.
_NOT_FIXED = 255
_STRUCTS = {
    letter: Struct(format)
    for letter, format in (
        ("b", ">b"), ("B", ">B"), ("s", ">h"), ("u", ">H"), ("I", ">i"), ("i", ">I"), ("l", ">q"),
        ("L", ">q"), ("f", ">f"), ("d", ">d"), ("t", ">?"), ("T", ">Q"), ("D", ">Bi"),
    )
}  # fmt: skip
_STRUCT_BY_CODE = {ord(letter): struct for letter, struct in _STRUCTS.items()}
_FIXED_BYTES = bytes(
    0 if code == ord("V") else _STRUCT_BY_CODE[code].size if code in _STRUCT_BY_CODE else _NOT_FIXED
    for code in range(256)
)

_pack_int32 = _STRUCTS["I"].pack
_pack_int64 = _STRUCTS["l"].pack
_pack_double = _STRUCTS["d"].pack
_pack_decimal = _STRUCTS["D"].pack
_pack_timestamp = _STRUCTS["T"].pack


# ------------------------------------------------------------------------------------------------- reading


# Of a bytearray the part in question is copied once: the rest works on bytes, which Cython indexes like C.


def decode_table(buf: Buffer, pos: int, end: int) -> tuple[dict[str, object], int]:
    """The table whose length stands at `pos`, and the position behind it."""
    if not isinstance(buf, bytes):
        table, size = decode_table(bytes(buf[pos:end]), 0, end - pos)
        return table, pos + size
    stop = _container_end(buf, pos, end, 1)
    return _decode_fields(buf, pos + 4, stop, 1), stop


def decode_value(buf: Buffer, pos: int, end: int) -> tuple[object, int]:
    """The value whose letter stands at `pos`, and the position behind it."""
    if not isinstance(buf, bytes):
        value, size = decode_value(bytes(buf[pos:end]), 0, end - pos)
        return value, pos + size
    return _decode_value(buf, pos, end, 0)


def check_table(buf: Buffer, pos: int, end: int) -> int:
    """The position behind the table at `pos`; raises what `decode_table` would, and builds nothing."""
    if not isinstance(buf, bytes):
        return pos + check_table(bytes(buf[pos:end]), 0, end - pos)
    stop = _container_end(buf, pos, end, 1)
    return _check_fields(buf, pos + 4, stop, 1)


def decode_typed(buf: Buffer, pos: int, end: int) -> tuple[list[TypedField], int]:
    """Like `decode_table`, but a list of (name, letter, value) in the order of the wire."""
    if not isinstance(buf, bytes):
        fields, size = decode_typed(bytes(buf[pos:end]), 0, end - pos)
        return fields, pos + size
    stop = _container_end(buf, pos, end, 1)
    return _decode_typed_fields(buf, pos + 4, stop, 1), stop


def _uint32(data: bytes, pos: int) -> int:
    # Variables that table.pxd declares 64 bits wide: `data[pos] << 24` alone would be a C int and overflow.
    a = data[pos]
    b = data[pos + 1]
    c = data[pos + 2]
    d = data[pos + 3]
    return a << 24 | b << 16 | c << 8 | d


def _container_end(data: bytes, pos: int, end: int, depth: int) -> int:
    """Where the table or array at `pos` ends, once its length and depth are found possible."""
    if depth > DEPTH_MAX:
        raise SyntaxFault(f"field table nested more than {DEPTH_MAX} deep")
    return _long_end(data, pos, end)


def _long_end(data: bytes, pos: int, end: int) -> int:
    if pos + 4 > end:
        raise SyntaxFault("field table ends inside a length")
    stop = pos + 4 + _uint32(data, pos)
    if stop > end:
        raise SyntaxFault(f"length in a field table reaches {stop - end} bytes too far")
    return stop


def _name_end(data: bytes, pos: int, end: int) -> int:
    """Where the field name at `pos` ends; a letter must still follow it."""
    stop = pos + 1 + data[pos]
    if stop >= end:
        raise SyntaxFault("field table ends inside a field")
    return stop


def _fixed_end(code: int, pos: int, end: int) -> int:
    """Where the value of fixed size at `pos` ends."""
    size = _FIXED_BYTES[code]
    if size == _NOT_FIXED:
        raise SyntaxFault(f"unknown field type {chr(code)!r} in a field table")
    if pos + size > end:
        raise SyntaxFault("field table ends inside a value")
    return pos + size


def _duplicate(name: str) -> SyntaxFault:
    return SyntaxFault(f"field '{name}' appears twice in a field table")


def _decode_fields(data: bytes, pos: int, end: int, depth: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    while pos < end:
        stop = _name_end(data, pos, end)
        name = data[pos + 1 : stop].decode("utf-8", "surrogateescape")
        if name in fields:
            raise _duplicate(name)
        fields[name], pos = _decode_value(data, stop, end, depth)
    return fields


def _decode_value(data: bytes, pos: int, end: int, depth: int) -> tuple[object, int]:
    if pos >= end:
        raise SyntaxFault("field table ends before a value")
    code = data[pos]
    pos += 1
    if code == 0x46:  # F
        stop = _container_end(data, pos, end, depth + 1)
        return _decode_fields(data, pos + 4, stop, depth + 1), stop
    if code == 0x41:  # A
        stop = _container_end(data, pos, end, depth + 1)
        return _decode_array(data, pos + 4, stop, depth + 1), stop
    return _decode_scalar(data, code, pos, end)


def _decode_array(data: bytes, pos: int, end: int, depth: int) -> list[object]:
    values: list[object] = []
    while pos < end:
        value, pos = _decode_value(data, pos, end, depth)
        values.append(value)
    return values


def _decode_scalar(data: bytes, code: int, pos: int, end: int) -> tuple[object, int]:
    if code == 0x53:  # S
        stop = _long_end(data, pos, end)
        return data[pos + 4 : stop].decode("utf-8", "surrogateescape"), stop
    if code == 0x78:  # x
        stop = _long_end(data, pos, end)
        return data[pos + 4 : stop], stop
    stop = _fixed_end(code, pos, end)
    if code == 0x56:  # V
        return None, stop
    numbers = _STRUCT_BY_CODE[code].unpack_from(data, pos)
    if code == 0x54:  # T
        return Timestamp(numbers[0]), stop
    if code == 0x44:  # D
        return _decimal(numbers[0], numbers[1]), stop
    return numbers[0], stop


def _decimal(scale: int, unscaled: int) -> Decimal:
    # Not Decimal(unscaled).scaleb(-scale): that would depend on the thread's decimal context.
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((unscaled < 0, digits, -scale))


def _decode_typed_fields(data: bytes, pos: int, end: int, depth: int) -> list[TypedField]:
    fields: list[TypedField] = []
    names: set[str] = set()
    while pos < end:
        stop = _name_end(data, pos, end)
        name = data[pos + 1 : stop].decode("utf-8", "surrogateescape")
        if name in names:
            raise _duplicate(name)
        names.add(name)
        letter, value, pos = _decode_typed_value(data, stop, end, depth)
        fields.append((name, letter, value))
    return fields


def _decode_typed_value(data: bytes, pos: int, end: int, depth: int) -> tuple[str, object, int]:
    if pos >= end:
        raise SyntaxFault("field table ends before a value")
    code = data[pos]
    pos += 1
    if code == 0x46:  # F
        stop = _container_end(data, pos, end, depth + 1)
        return "F", _decode_typed_fields(data, pos + 4, stop, depth + 1), stop
    if code == 0x41:  # A
        stop = _container_end(data, pos, end, depth + 1)
        return "A", _decode_typed_array(data, pos + 4, stop, depth + 1), stop
    value, stop = _decode_scalar(data, code, pos, end)
    return chr(code), value, stop


def _decode_typed_array(data: bytes, pos: int, end: int, depth: int) -> list[TypedValue]:
    values: list[TypedValue] = []
    while pos < end:
        letter, value, pos = _decode_typed_value(data, pos, end, depth)
        values.append((letter, value))
    return values


def _check_fields(data: bytes, pos: int, end: int, depth: int) -> int:
    names: set[bytes] = set()
    while pos < end:
        stop = _name_end(data, pos, end)
        name = data[pos + 1 : stop]
        if name in names:
            raise _duplicate(name.decode("utf-8", "surrogateescape"))
        names.add(name)
        pos = _check_value(data, stop, end, depth)
    return pos


def _check_value(data: bytes, pos: int, end: int, depth: int) -> int:
    if pos >= end:
        raise SyntaxFault("field table ends before a value")
    code = data[pos]
    pos += 1
    if code == 0x53 or code == 0x78:  # S, x
        return _long_end(data, pos, end)
    if code == 0x46:  # F
        stop = _container_end(data, pos, end, depth + 1)
        return _check_fields(data, pos + 4, stop, depth + 1)
    if code == 0x41:  # A
        stop = _container_end(data, pos, end, depth + 1)
        pos += 4
        while pos < stop:
            pos = _check_value(data, pos, stop, depth + 1)
        return pos
    return _fixed_end(code, pos, end)


# ------------------------------------------------------------------------------------------------- writing


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
    struct = _STRUCTS.get(letter)
    if struct is not None and letter != "D":
        return prefix + struct.pack(value)
    plain = _encode_value(value, depth)
    # S, x, V and D have one Python type each; any other letter with such a value is our mistake.
    if plain[:1] != prefix:
        raise ValueError(f"no field table type {letter!r} for {type(value).__name__}")
    return plain
