"""Field tables: names with typed values, as RabbitMQ and its clients really send them.

    table  = length (4)  { name: short string, letter (1), value }*
    array  = length (4)  { letter (1), value }*

    b B   int8, uint8       I i   int32, uint32     f d   float, double     A   array
    s u   int16, uint16     l L   int64             D     decimal           F   table
    t     bool              T     timestamp         S     text              V   nothing
                                                    x     bytes

(The letters printed in the specification of 0-9-1 differ; no client follows them.)

Two ways in: `decode_table` gives a plain dict; `decode_typed` keeps every value's letter, so that
`encode_typed` writes back what came (a re-published message must not turn a client's int16 into an int32). On
the path of a message `field_scan` accepts and refuses exactly the same bytes, but builds nothing.

Invariants: no byte at or after `end` is read; containers nest at most DEPTH_MAX deep; whatever a peer sends,
the only exception is SyntaxFault. What we cannot encode is our mistake: ValueError or TypeError.

Field names are any bytes up to 255. The specification wants a letter first and 128 characters at most, yet
real clients send "__TypeId__" (Spring), and RabbitMQ lets them.
"""

from __future__ import annotations

from decimal import Decimal

from embermq.errors import SyntaxFault
from embermq.wire.primitive import Buffer
from embermq.wire.table_writer import (
    DEPTH_MAX,
    STRUCTS,
    Timestamp,
    TypedField,
    TypedValue,
    encode_table,
    encode_typed,
    encode_value,
)

__all__ = [
    "DEPTH_MAX",
    "Timestamp",
    "TypedField",
    "TypedValue",
    "decode_table",
    "decode_typed",
    "decode_value",
    "encode_table",
    "encode_typed",
    "encode_value",
]

# How many bytes the value under each letter takes. Not fixed, or no letter at all: 255.
_NOT_FIXED = 255
_STRUCT_BY_CODE = {ord(letter): struct for letter, struct in STRUCTS.items()}
_FIXED_BYTES = bytes(
    0 if code == ord("V") else _STRUCT_BY_CODE[code].size if code in _STRUCT_BY_CODE else _NOT_FIXED
    for code in range(256)
)

# Each way in has its `if` for the compiled form only: table.pxd has the functions below exist once for bytes
# and once for bytearray, so that neither is copied and both are indexed like C arrays.


def decode_table(buf: Buffer, pos: int, end: int) -> tuple[dict[str, object], int]:
    """The table whose length stands at `pos`, and the position behind it."""
    if isinstance(buf, bytearray):
        array = buf
        stop = _container_end(array, pos, end, 1)
        return _decode_fields(array, pos + 4, stop, 1), stop
    data = buf
    stop = _container_end(data, pos, end, 1)
    return _decode_fields(data, pos + 4, stop, 1), stop


def decode_value(buf: Buffer, pos: int, end: int) -> tuple[object, int]:
    """The value whose letter stands at `pos`, and the position behind it."""
    if isinstance(buf, bytearray):
        array = buf
        return _decode_value(array, pos, end, 0)
    data = buf
    return _decode_value(data, pos, end, 0)


def decode_typed(buf: Buffer, pos: int, end: int) -> tuple[list[TypedField], int]:
    """Like `decode_table`, but a list of (name, letter, value) in the order of the wire."""
    if isinstance(buf, bytearray):
        array = buf
        stop = _container_end(array, pos, end, 1)
        return _decode_typed_fields(array, pos + 4, stop, 1), stop
    data = buf
    stop = _container_end(data, pos, end, 1)
    return _decode_typed_fields(data, pos + 4, stop, 1), stop


def _uint32(data: Buffer, pos: int) -> int:
    # Variables that table.pxd declares 64 bits wide: `data[pos] << 24` alone would be a C int and overflow.
    a = data[pos]
    b = data[pos + 1]
    c = data[pos + 2]
    d = data[pos + 3]
    return a << 24 | b << 16 | c << 8 | d


def _container_end(data: Buffer, pos: int, end: int, depth: int) -> int:
    """Where the table or array at `pos` ends, once its length and depth are found possible."""
    if depth > DEPTH_MAX:
        raise SyntaxFault(f"field table nested more than {DEPTH_MAX} deep")
    return _long_end(data, pos, end)


def _long_end(data: Buffer, pos: int, end: int) -> int:
    if pos + 4 > end:
        raise SyntaxFault("field table ends inside a length")
    stop = pos + 4 + _uint32(data, pos)
    if stop > end:
        raise SyntaxFault(f"length in a field table reaches {stop - end} bytes too far")
    return stop


def _name_end(data: Buffer, pos: int, end: int) -> int:
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


def _decode_fields(data: Buffer, pos: int, end: int, depth: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    while pos < end:
        stop = _name_end(data, pos, end)
        name = data[pos + 1 : stop].decode("utf-8", "surrogateescape")
        if name in fields:
            raise _duplicate(name)
        fields[name], pos = _decode_value(data, stop, end, depth)
    return fields


def _decode_value(data: Buffer, pos: int, end: int, depth: int) -> tuple[object, int]:
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


def _decode_array(data: Buffer, pos: int, end: int, depth: int) -> list[object]:
    values: list[object] = []
    while pos < end:
        value, pos = _decode_value(data, pos, end, depth)
        values.append(value)
    return values


def _decode_scalar(data: Buffer, code: int, pos: int, end: int) -> tuple[object, int]:
    if code == 0x53:  # S
        stop = _long_end(data, pos, end)
        return data[pos + 4 : stop].decode("utf-8", "surrogateescape"), stop
    if code == 0x78:  # x
        stop = _long_end(data, pos, end)
        return bytes(data[pos + 4 : stop]), stop
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


def _decode_typed_fields(data: Buffer, pos: int, end: int, depth: int) -> list[TypedField]:
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


def _decode_typed_value(data: Buffer, pos: int, end: int, depth: int) -> tuple[str, object, int]:
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


def _decode_typed_array(data: Buffer, pos: int, end: int, depth: int) -> list[TypedValue]:
    values: list[TypedValue] = []
    while pos < end:
        letter, value, pos = _decode_typed_value(data, pos, end, depth)
        values.append((letter, value))
    return values
