"""Methods and properties <-> bytes and JSON, read off the one definition of the protocol."""

from __future__ import annotations

import struct
import tomllib
from typing import Any

from tools.brokers import REPOSITORY
from tools.differ.fields import Reader, Table, encode_table, long_string, readable, short_string
from tools.wiregen.definition import FORMATS, Method, read_fields, read_methods

_DEFINITION = tomllib.loads((REPOSITORY / "src/embermq/wire/amqp.toml").read_text())
METHODS: dict[str, Method] = {method.full_name: method for method in read_methods(_DEFINITION)}
BY_ID = {(method.class_id, method.id): method for method in METHODS.values()}
_BASIC = next(klass for klass in _DEFINITION["class"] if klass["name"] == "basic")
PROPERTIES = read_fields(_BASIC["properties"])
BASIC_ID = 60


def encode_field(kind: str, value: Any) -> bytes:
    if kind == "shortstr":
        return short_string(value or "")
    if kind == "longstr":
        return long_string((value or "").encode())
    if kind == "table":
        return encode_table(value or {})
    return struct.pack(">" + FORMATS[kind], value or 0)


def decode_field(reader: Reader, kind: str) -> Any:
    if kind == "shortstr":
        return reader.short_string()
    if kind == "longstr":
        return readable(reader.long_string())
    if kind == "table":
        return reader.table()
    return reader.number(">" + FORMATS[kind])


def encode_method(name: str, fields: Table) -> bytes:
    """The payload of a method frame; fields that are not given are empty, zero or false."""
    method = METHODS[name]
    unknown = set(fields) - {field.name for field in method.fields}
    assert not unknown, (name, unknown)
    payload = struct.pack(">HH", method.class_id, method.id)
    for item in method.items:
        if item.type == "bits":
            payload += bytes([sum(bool(fields.get(f.name)) << bit for bit, f in enumerate(item.fields))])
        else:
            payload += encode_field(item.type, fields.get(item.fields[0].name))
    return payload


def decode_method(payload: bytes) -> tuple[str, Table]:
    reader = Reader(payload)
    method = BY_ID[reader.number(">H"), reader.number(">H")]
    fields: Table = {}
    for item in method.items:
        if item.type == "bits":
            bits = reader.number(">B")
            fields |= {field.name: bool(bits >> bit & 1) for bit, field in enumerate(item.fields)}
        else:
            value = decode_field(reader, item.type)
            if not item.reserved:
                fields[item.fields[0].name] = value
    return method.full_name, fields


def encode_header(size: int, properties: Table) -> bytes:
    flags, values = 0, b""
    for place, field in enumerate(PROPERTIES):
        if field.name in properties:
            flags |= 1 << (15 - place)
            values += encode_field(field.type, properties[field.name])
    return struct.pack(">HHQH", BASIC_ID, 0, size, flags) + values


def decode_header(payload: bytes) -> tuple[int, Table]:
    """Size of the body, and the properties."""
    reader = Reader(payload)
    reader.take(4)
    size = reader.number(">Q")
    flags = reader.number(">H")
    properties = {
        field.name: decode_field(reader, field.type)
        for place, field in enumerate(PROPERTIES)
        if flags >> (15 - place) & 1
    }
    return size, properties
