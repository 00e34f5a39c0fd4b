"""Bodies as columns, with a schema of the user's: json and csv; other formats by pyspark_embermq.formats.

Each body is read by itself, and gives what Spark's from_json and from_csv would give for it: a body that is
not of the format has nulls in all columns, a field that does not fit has null, and both are told as problems.
What is of the right type already goes into a column without being looked at.
"""

from __future__ import annotations

import csv
import io
import json
import json.scanner
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from embermq.wire.properties import Properties
from pyspark_embermq.decoding.casting import (
    Convert,
    FloatText,
    Misfit,
    converter,
    misfit,
    needs_text,
    text_converter,
)
from pyspark_embermq.decoding.json_columns import PlainJson
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats.avro import avro_reader
from pyspark_embermq.formats.cloudevents import event_of
from pyspark_embermq.formats.msgpack import msgpack_reader
from pyspark_embermq.formats.protobuf import protobuf_reader
from pyspark_embermq.formats.typed_values import typed_converter
from pyspark_embermq.options import Options

Row = dict[str, Any]
Read = Callable[[bytes, list[str]], Row]  # a body in; what does not fit in an otherwise good one is added
SPACES = " \t\r\n"
PROBLEM_TEXT_MAX = 200


class Undecodable(Exception):
    """A body that is not of its format at all; the text says why."""


def check_types(options: Options, schema: pa.Schema) -> None:
    """On the driver: is there a way to read these types?"""
    for field in schema:
        if maker(options, field.type) is None:
            raise AMQPSourceError(
                f"column {field.name!r} is {field.type}, which cannot be read from {options.format}: "
                "read a string, and let the query make it that"
            )


def maker(options: Options, kind: pa.DataType) -> Convert | None:
    if options.format == "json":
        return converter(kind)
    return text_converter(kind) if options.format == "csv" else typed_converter(kind)


class Decoder:
    """Makes one Arrow column per field out of bodies; names those that could not be read."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.converters = [maker(options, field.type) for field in schema]
        self.read: Read = READERS[options.format](options, schema)
        self.plain_json = PlainJson(schema, self.decode) if options.format == "json" else None

    def decode(self, bodies: Sequence[bytes]) -> tuple[list[pa.Array], dict[int, str]]:
        """The columns, and by index why a body, or a field of it, could not be read."""
        rows: list[Row] = []
        problems: dict[int, str] = {}
        read, found = self.read, list[str]()
        for index, body in enumerate(bodies):
            try:
                rows.append(read(body, found))
            except Undecodable as why:
                found.append(str(why)[:PROBLEM_TEXT_MAX])
                rows.append({})
            if found:
                problems[index] = found.pop()
        columns = []
        for field, convert in zip(self.schema, self.converters, strict=True):
            assert convert is not None, "the driver has checked that"
            name = field.name
            columns.append(column_of(field, convert, [row.get(name) for row in rows], problems))
        return columns, problems


def column_of(field: pa.Field, convert: Convert, values: list[Any], problems: dict[int, str]) -> pa.Array:
    kind = field.type
    kinds = set(map(type, values))
    kinds.discard(type(None))
    try:
        if not kinds or kinds == native(kind):
            return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError):
        pass  # one of them does not fit: which?
    found: list[Any] = []
    inner: list[str] = []
    for index, value in enumerate(values):
        try:
            found.append(None if value is None else convert(value, inner))
        except Misfit as why:
            found.append(None)
            inner = [str(why)]
        if inner:
            problems.setdefault(index, f"field '{field.name}' {inner[0]}")
            inner = []
    return pa.array(found, kind)


def native(kind: pa.DataType) -> set[type]:
    """What values are that need no converter."""
    if pa.types.is_boolean(kind):
        return {bool}
    if pa.types.is_integer(kind):
        return {int}
    if pa.types.is_floating(kind):
        return {float}
    return {str} if pa.types.is_string(kind) else set()


# -- what reads a body


def json_reader(options: Options, schema: pa.Schema) -> Read:
    hook = FloatText if any(needs_text(field.type) for field in schema) else None
    decoder: Any = json.JSONDecoder(parse_float=hook, parse_constant=hook)
    # Without the decoder's own search for spaces, which takes longer than the rest.
    scan: Any = json.scanner.make_scanner(decoder)

    def read(body: bytes, problems: list[str]) -> Row:
        try:
            text = body.decode().strip(SPACES)
            row, end = scan(text, 0)
        except UnicodeDecodeError as error:
            raise Undecodable(f"not UTF-8: {error}") from None
        except StopIteration as place:
            raise Undecodable(f"not JSON: no value at character {place.value}") from None
        except (ValueError, RecursionError) as error:
            raise Undecodable(f"not JSON: {error}") from None
        if end != len(text):
            raise Undecodable(f"not JSON: something follows the value at character {end}")
        if type(row) is not dict:
            raise Undecodable(f"it {misfit(row, 'an object')}")
        return row

    return read


def csv_reader(options: Options, schema: pa.Schema) -> Read:
    names, separator = schema.names, options.csv_separator

    def read(body: bytes, problems: list[str]) -> Row:
        try:
            lines = list(csv.reader(io.StringIO(body.decode(), newline=""), delimiter=separator))
        except UnicodeDecodeError as error:
            raise Undecodable(f"not UTF-8: {error}") from None
        except csv.Error as error:
            raise Undecodable(f"not CSV: {error}") from None
        if len(lines) != 1:
            raise Undecodable(f"lines: {len(lines)}; expected one")
        if len(lines[0]) != len(names):
            problems.append(f"fields: {len(lines[0])}; expected {len(names)}")
        return {name: text or None for name, text in zip(names, lines[0], strict=False)}

    return read


def avro_row_reader(options: Options, schema: pa.Schema) -> Read:
    return library_reader(avro_reader(options), "not Avro of that schema")


def protobuf_row_reader(options: Options, schema: pa.Schema) -> Read:
    return library_reader(protobuf_reader(options, schema), f"not a {options.protobuf_message}")


def msgpack_row_reader(options: Options, schema: pa.Schema) -> Read:
    return library_reader(msgpack_reader(), "not MessagePack")


def library_reader(read_body: Callable[[bytes], Any], problem: str) -> Read:
    def read(body: bytes, problems: list[str]) -> Row:
        try:
            row = read_body(body)
        except AMQPSourceError:
            raise  # a registry that does not answer is not the message's fault
        except Exception as error:  # whatever the library's C code met
            raise Undecodable(f"{problem}: {type(error).__name__} {error}".rstrip()) from None
        if not isinstance(row, dict):
            raise Undecodable(f"{problem}: it is no record")
        return row

    return read


def event_reader(options: Options, schema: pa.Schema) -> Callable[[Any, list[str]], Row]:
    def read(message: tuple[bytes, Properties], problems: list[str]) -> Row:
        try:
            return event_of(*message)
        except ValueError as why:
            raise Undecodable(str(why)) from None

    return read


READERS: dict[str, Callable[[Options, pa.Schema], Read]] = {
    "json": json_reader,
    "csv": csv_reader,
    "avro": avro_row_reader,
    "protobuf": protobuf_row_reader,
    "msgpack": msgpack_row_reader,
    "cloudevents": event_reader,
}
