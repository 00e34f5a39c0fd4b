"""Bodies as columns: json, csv and avro with a schema of the user's.

A whole batch is decoded at once where pyarrow can; when one body in it does not fit, the batch is halved
until few are left with it, so that only that one is treated as the user says.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options

Fields = dict[str, Any]
FEW = 8  # bodies that are not worth another try at once


class Undecodable(Exception):
    """A body that does not fit; the text says why."""


class Decoder:
    """Makes one Arrow column per field out of bodies; names those that could not be read."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.for_arrow = all(reads_itself(field.type) for field in schema)
        self.avro: Any = None

    def decode(self, bodies: Sequence[bytes]) -> tuple[list[pa.Array], dict[int, str]]:
        """The columns, and by index why a body could not be read: null in all columns."""
        if self.options.format != "json" or not self.for_arrow:
            return self.one_by_one(bodies)
        problems: dict[int, str] = {}
        parts = self.json_parts(bodies, 0, problems)
        if len(parts) > 1:
            parts = [[pa.concat_arrays(column) for column in zip(*parts, strict=True)]]
        return parts[0], problems

    def json_parts(
        self, bodies: Sequence[bytes], first: int, problems: dict[int, str]
    ) -> list[list[pa.Array]]:
        """The columns of bodies from number `first` on, in as many parts as it takes."""
        if (whole := self.json_batch(bodies)) is not None:
            return [whole]
        if len(bodies) <= FEW:
            columns, found = self.one_by_one(bodies)
            problems.update({first + index: why for index, why in found.items()})
            return [columns]
        half = len(bodies) // 2
        return [
            *self.json_parts(bodies[:half], first, problems),
            *self.json_parts(bodies[half:], first + half, problems),
        ]

    def one_by_one(self, bodies: Sequence[bytes]) -> tuple[list[pa.Array], dict[int, str]]:
        rows: list[Fields] = []
        problems: dict[int, str] = {}
        for index, body in enumerate(bodies):
            try:
                row = self.row(body)
                for field in self.schema:
                    pa.array([row.get(field.name)], field.type)  # fits, or says why not
            except Undecodable as problem:
                problems[index], row = str(problem), {}
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
                problems[index], row = str(problem), {}
            rows.append(row)
        return [
            pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema
        ], problems

    def json_batch(self, bodies: Sequence[bytes]) -> list[pa.Array] | None:
        """All bodies in one go; None when pyarrow finds anything in them odd."""
        # Pyarrow takes a line for a row. One that is blank is none, and hides that another holds two.
        if any(b"\n" in body or not body.strip() for body in bodies):
            return None
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(b"\n".join(bodies)),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 26),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self.schema, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(bodies):
                return None
            return [
                column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
                for column in (table.column(field.name).cast(field.type) for field in self.schema)
            ]
        except (pa.ArrowException, KeyError):
            return None

    def row(self, body: bytes) -> Fields:
        if self.options.format == "json":
            return self.json_row(body)
        if self.options.format == "csv":
            return self.csv_row(body)
        return self.avro_row(body)

    def json_row(self, body: bytes) -> Fields:
        try:
            row = json.loads(body)
        except ValueError as error:
            raise Undecodable(f"not JSON: {error}") from None
        if not isinstance(row, dict):
            raise Undecodable(f"a JSON {type(row).__name__}, expected an object")
        return {field.name: value_from_json(row.get(field.name), field.type) for field in self.schema}

    def csv_row(self, body: bytes) -> Fields:
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(f"not UTF-8: {error}") from None
        rows = list(csv.reader(io.StringIO(text), delimiter=self.options.csv_separator))
        if len(rows) != 1 or len(rows[0]) != len(self.schema):
            found = f"fields: {len(rows[0])}" if len(rows) == 1 else f"lines: {len(rows)}"
            raise Undecodable(f"{found}; expected one line of {len(self.schema)} fields")
        return {
            field.name: value_from_text(text, field.type)
            for field, text in zip(self.schema, rows[0], strict=True)
        }

    def avro_row(self, body: bytes) -> Fields:
        if self.avro is None:
            self.avro = avro_reader(self.options.avro_schema)
        try:
            row = self.avro(body)
        except Exception as error:  # fastavro raises whatever its C code met
            raise Undecodable(f"not Avro of that schema: {type(error).__name__} {error}".rstrip()) from None
        if not isinstance(row, dict):
            raise Undecodable("the Avro schema is not of a record")
        return row


def reads_itself(kind: pa.DataType) -> bool:
    """Whether pyarrow can make this type out of JSON."""
    if pa.types.is_map(kind) or pa.types.is_date(kind):
        return False
    return all(reads_itself(kind.field(index).type) for index in range(kind.num_fields))


def value_from_json(value: Any, kind: pa.DataType) -> Any:
    """A value as pyarrow takes it for a column of this type; what does not fit is left for it to refuse."""
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(name, value_from_json(item, kind.item_type)) for name, item in value.items()]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {field.name: value_from_json(value.get(field.name), field.type) for field in kind.fields}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [value_from_json(item, kind.value_type) for item in value]
    if isinstance(value, str) and (
        pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind)
    ):
        return value_from_text(value, kind)
    if isinstance(value, float | int) and pa.types.is_decimal(kind):
        return Decimal(str(value))
    return value


def value_from_text(text: str, kind: pa.DataType) -> Any:
    """A field of a CSV line; an empty one is null unless it is wanted as text. A time without zone is UTC."""
    if pa.types.is_string(kind):
        return text
    if text == "":
        return None
    if pa.types.is_timestamp(kind):
        found = datetime.datetime.fromisoformat(text)
        return found if found.tzinfo or kind.tz is None else found.replace(tzinfo=datetime.UTC)
    return pa.array([text]).cast(kind)[0].as_py()


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
