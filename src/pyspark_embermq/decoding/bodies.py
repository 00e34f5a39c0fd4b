"""Bodies as columns: json, csv and avro with a schema of the user's.

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

from pyspark_embermq.decoding.casting import (
    Convert,
    FloatText,
    Misfit,
    converter,
    misfit,
    needs_text,
    text_converter,
)
from pyspark_embermq.errors import AMQPSourceError
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
    if options.format == "avro":
        return avro_converter(kind)
    return converter(kind) if options.format == "json" else text_converter(kind)


class Decoder:
    """Makes one Arrow column per field out of bodies; names those that could not be read."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.converters = [maker(options, field.type) for field in schema]
        self.read: Read = READERS[options.format](options, schema)

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
    read_avro = avro_reader(options.avro_schema)

    def read(body: bytes, problems: list[str]) -> Row:
        try:
            row = read_avro(body)
        except Exception as error:  # fastavro raises whatever its C code met
            raise Undecodable(f"not Avro of that schema: {type(error).__name__} {error}".rstrip()) from None
        if not isinstance(row, dict):
            raise Undecodable("the Avro schema is not of a record")
        return row

    return read


READERS = {"json": json_reader, "csv": csv_reader, "avro": avro_row_reader}


def avro_reader(schema_text: str) -> Any:
    try:
        import fastavro
    except ImportError:
        raise AMQPSourceError(
            "option 'format' is 'avro': that needs fastavro (pip install fastavro)"
        ) from None
    try:
        schema = fastavro.parse_schema(json.loads(schema_text))
    except Exception as error:
        raise AMQPSourceError(f"option 'avroSchema' is not an Avro schema: {error}") from None

    def read(body: bytes) -> Any:
        stream = io.BytesIO(body)
        row = fastavro.schemaless_reader(stream, schema)
        if stream.read(1):
            raise ValueError("bytes are left over")
        return row

    return read


def avro_converter(kind: pa.DataType) -> Convert:
    """Avro has types, and fastavro Python's objects for them: pyarrow knows which fit."""

    def convert(value: Any, problems: list[str]) -> Any:
        found = with_pairs(value, kind)
        try:
            pa.array([found], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Misfit(f"does not fit: {error}") from None
        return found

    return convert


def with_pairs(value: Any, kind: pa.DataType) -> Any:
    """Maps as pyarrow takes them."""
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(name, with_pairs(item, kind.item_type)) for name, item in value.items()]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {field.name: with_pairs(value.get(field.name), field.type) for field in kind}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [with_pairs(item, kind.value_type) for item in value]
    return value
