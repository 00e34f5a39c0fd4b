"""Headers with the types that AMQP gave them: an array of structs (name, type, value), or a variant.

The value of a struct is a text: numbers as they are written, bytes in base64, timestamps in seconds; of a
table the same structs as JSON, of an array those without names. What was read so and is written so is the
same on the wire, widths of integers and single floats included. A variant has the JSON of `headers_json`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql.types import ArrayType, DataType

from embermq.wire.properties import FLAG_CONTENT_ENCODING, FLAG_CONTENT_TYPE, FLAG_HEADERS, Properties
from embermq.wire.table import Timestamp, TypedField, TypedValue, decode_typed, encode_typed
from pyspark_embermq.errors import AMQPSourceError

KIND = "array<struct<name:string,type:string,value:string>>"
LETTERS = {
    "int8": "b",
    "uint8": "B",
    "int16": "s",
    "uint16": "u",
    "int32": "I",
    "uint32": "i",
    "int64": "l",
    "long": "L",  # an int64, too, under the letter that some clients send
    "float": "f",
    "double": "d",
    "decimal": "D",
    "boolean": "t",
    "timestamp": "T",
    "string": "S",
    "bytes": "x",
    "table": "F",
    "array": "A",
    "null": "V",
}
NAMES = {letter: name for name, letter in LETTERS.items()}
BROKERS_OWN = ("x-stream-offset", "x-stream-timestamp")  # they have columns of their own
INTEGERS = frozenset("bBsuIilL")


def is_typed(kind: DataType) -> bool:
    """The type of a column `headers` that is an array of structs."""
    return isinstance(kind, ArrayType) and kind.simpleString() == KIND


def check_kind(name: str, kind: DataType) -> None:
    if isinstance(kind, ArrayType) and not is_typed(kind):
        found = kind.simpleString()
        raise AMQPSourceError(f"column {name!r} is {found}; expected {KIND}, a map or a variant")


# -- reading


def typed_headers(raw: Sequence[bytes]) -> list[list[dict[str, str | None]]]:
    """Of encoded properties: the headers, without those that the broker added."""
    return [[struct_of(field) for field in fields_in(one) if field[0] not in BROKERS_OWN] for one in raw]


def fields_in(properties: bytes) -> list[TypedField]:
    flags = int.from_bytes(properties[:2])
    if not flags & FLAG_HEADERS:
        return []
    at = 2
    for flag in (FLAG_CONTENT_TYPE, FLAG_CONTENT_ENCODING):  # which stand before
        if flags & flag:
            at += 1 + properties[at]
    return decode_typed(properties, at, len(properties))[0]


def struct_of(field: TypedField) -> dict[str, str | None]:
    name, letter, value = field
    return {"name": name, "type": NAMES[letter], "value": text_of(letter, value)}


def text_of(letter: str, value: Any) -> str | None:
    if letter == "V":
        return None
    if letter == "F":
        return json.dumps([struct_of(field) for field in value])
    if letter == "A":
        return json.dumps([{"type": NAMES[inner], "value": text_of(inner, item)} for inner, item in value])
    if letter == "x":
        return base64.b64encode(value).decode()
    if letter == "t":
        return "true" if value else "false"
    return str(int(value)) if letter == "T" else repr(value) if letter in "fd" else str(value)


# -- writing


def encoded_with(properties: Properties, headers: Sequence[dict[str, Any]] | None) -> bytes:
    """Properties, encoded, with these headers beside those that they have (which are texts)."""
    own: list[TypedField] = [(name, "S", value) for name, value in (properties.headers or {}).items()]
    fields = [*typed_fields(headers or ()), *own]
    first = Properties(properties.content_type, properties.content_encoding).encode()
    rest = {name: getattr(properties, name) for name in Properties.__slots__[3:]}
    last = Properties(**rest).encode()
    flags = int.from_bytes(first[:2]) | int.from_bytes(last[:2]) | (FLAG_HEADERS if fields else 0)
    return flags.to_bytes(2) + first[2:] + (encode_typed(fields) if fields else b"") + last[2:]


def typed_fields(structs: Sequence[dict[str, Any]]) -> list[TypedField]:
    names = [struct["name"] for struct in structs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"header {twice!r} is there twice")
    return [(str(struct["name"]), *typed_value(struct)) for struct in structs]


def typed_value(struct: dict[str, Any]) -> TypedValue:
    letter = LETTERS.get(str(struct.get("type")))
    if letter is None:
        known = ", ".join(LETTERS)
        raise ValueError(f"a header has the type {struct.get('type')!r}; expected one of {known}")
    text = struct.get("value")
    if letter == "V" or text is None:
        return "V", None
    try:
        return letter, value_of(letter, text)
    except (ValueError, InvalidOperation, binascii.Error, KeyError, TypeError) as error:
        raise ValueError(f"a header of the type {struct['type']} has the value {text!r}: {error}") from None


def value_of(letter: str, text: str) -> Any:
    if letter in INTEGERS:
        return int(text)
    if letter == "F":
        return typed_fields(json.loads(text))
    if letter == "A":
        return [typed_value(item) for item in json.loads(text)]
    if letter == "x":
        return base64.b64decode(text, validate=True)
    if letter == "t":
        return {"true": True, "false": False}[text.lower()]
    if letter == "T":
        return Timestamp(int(text))
    if letter == "D":
        return Decimal(text)
    return float(text) if letter in "fd" else text
