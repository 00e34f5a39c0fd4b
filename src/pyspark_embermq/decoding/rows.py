"""`RowMaker`: received messages to Arrow record batches of the query's schema; bad messages by policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from embermq.client import Message, Properties
from pyspark_embermq.decoding.bodies import Decoder, check_types
from pyspark_embermq.decoding.casting import as_variant, is_variant
from pyspark_embermq.decoding.columns import (
    COLUMNS,
    DIRECT,
    MAKERS,
    escaped,
    is_utf8,
    maker_of,
    property_columns,
    taken_from,
)
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats.typed_headers import KIND, typed_headers
from pyspark_embermq.options import AS_THEY_ARE, Options

HEADERS_TOO = (KIND, "variant")  # types of the column `headers` beside a map
# Takes messages that could not be read, with the reason: to a dead-letter exchange.
Refuse = Callable[[list[tuple[Message, str]]], None]


def body_fields(schema: StructType, options: Options) -> list[str]:
    """The columns that come from the body; the rest is about the message."""
    if options.format in AS_THEY_ARE:
        return []
    prefix = options.metadata_prefix
    return [
        name
        for name in schema.fieldNames()
        if not (name.startswith(prefix) and name.removeprefix(prefix) in MAKERS)
        and name != options.corrupt_column
    ]


def check_schema(schema: StructType, options: Options) -> None:
    """On the driver, before a task starts: can every column be had, with that type?"""
    if options.format in AS_THEY_ARE:
        kinds = {**COLUMNS, "body": "string" if options.format == "text" else "binary"}
        for field in schema.fields:
            maker_of(field.name)
            wanted = field.dataType.simpleString()
            if wanted != kinds[field.name] and not (field.name == "headers" and wanted in HEADERS_TOO):
                raise AMQPSourceError(
                    f"column {field.name!r} is {kinds[field.name]}; the schema asks for {wanted}"
                )
    elif not body_fields(schema, options):
        raise AMQPSourceError(
            f"option 'format' is {options.format!r}: give the fields of the body with .schema(...)"
        )
    else:
        fields = [field for field in schema.fields if field.name in body_fields(schema, options)]
        arrow_schema = to_arrow_schema(StructType(fields), timezone="UTC")
        check_types(options, arrow_schema)
        Decoder(options, arrow_schema)  # or a sentence: of a schema that is none, or a missing library


class RowMaker:
    """Made on the executor for one task: batches of messages in, record batches out."""

    def __init__(self, schema: StructType, options: Options, refuse: Refuse | None = None) -> None:
        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self.options = options
        self.refuse = refuse
        self.from_body = body_fields(schema, options)
        self.decoder: Decoder | None = None
        if self.from_body:
            fields = [self.schema.field(name) for name in self.from_body]
            # What is required by the schema may still be missing in a body that cannot be read.
            self.decoder = Decoder(options, pa.schema([field.with_nullable(True) for field in fields]))
        self.properties = property_columns(self.decoded_properties())

    def decoded_properties(self) -> set[str]:
        """What is to be taken out of properties, column by column."""
        names = set(self.metadata.values())
        for column, name in self.metadata.items():
            if name == "headers" and not pa.types.is_map(self.schema.field(column).type):
                names = names - {"headers"} | {"headers_json"}
        return names

    @cached_property
    def metadata(self) -> dict[str, str]:
        """The columns that are about the message, and what they are called without the prefix."""
        if self.decoder is None:
            return {name: name for name in self.schema.names}
        passed_over = {*self.from_body, self.options.corrupt_column}
        prefix = self.options.metadata_prefix
        return {name: name.removeprefix(prefix) for name in self.schema.names if name not in passed_over}

    @property
    def wanted(self) -> set[str]:
        """The columns that the client has to hand out."""
        if self.refuse is not None:
            return {*DIRECT, "properties"}  # a whole message may have to go elsewhere
        found = {column for name in self.metadata.values() for column in taken_from(name)}
        if self.options.format == "cloudevents":
            found.add("properties")
        return found if self.decoder is None else {"body", *found}

    @property
    def timed(self) -> bool:
        """Whether it matters when the broker took a message."""
        return "ingest_timestamp" in self.metadata.values()

    def batches(self, arrived: Arrivals, queue: str) -> Iterator[pa.RecordBatch]:
        """The rows of what has arrived, in batches that are not too large."""
        size = self.options.batch_rows
        for index in range(0, len(arrived), size):
            yield self.batch(arrived.part(index, index + size), queue)

    def batch(self, arrived: Arrivals, queue: str) -> pa.RecordBatch:
        made: dict[str, pa.Array] = {}
        problems: dict[int, str] = {}
        if self.decoder is not None:
            if self.decoder.plain_json is not None:
                columns, problems = self.decoder.plain_json.decode(arrived)
            else:
                columns, problems = self.decoder.decode(bodies_of(arrived, self.options))
            problems = {index: self.body_problem(arrived, index, why) for index, why in problems.items()}
            made = dict(zip(self.from_body, columns, strict=True))
        if self.properties is not None:
            arrived.take_apart(self.properties)
        for column, name in self.metadata.items():
            made[column] = self.column(name, self.schema.field(column), arrived, queue, problems)
        good: pa.Array | None = None  # the rows that stay; None: all
        if problems:
            good = self.treat(arrived, problems)
        corrupt = self.options.corrupt_column
        if self.decoder is not None and corrupt in self.schema.names:
            made[corrupt] = corrupt_column(arrived, problems, self.schema.field(corrupt).type)
        arrays = [made[name] for name in self.schema.names]
        if good is not None:
            arrays = [array.take(good) for array in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def body_problem(self, arrived: Arrivals, index: int, why: str) -> str:
        begin = arrived.body[index].as_py()[:80]
        return f"its body is not {self.options.format} as the schema has it: {why}; it begins with {begin!r}"

    def column(
        self, name: str, field: pa.Field, arrived: Arrivals, queue: str, problems: dict[int, str]
    ) -> pa.Array:
        """One that is about the message; what cannot be shown is null, and a problem."""
        values = other_headers(arrived, field.type) if name == "headers" else None
        if values is None:
            values = maker_of(name)(arrived, queue)
        if isinstance(values, pa.Array):
            if self.decoder is None and name == "body" and self.options.format == "text":
                values = as_texts(values)
            if not pa.types.is_string(values.type) or is_utf8(values):
                return values if values.type == field.type else values.cast(field.type)
            values = escaped(values)
        try:
            return pa.array(values, field.type)
        except UNFIT:
            return pa.array(fitting(values, field, problems), field.type)

    def treat(self, arrived: Arrivals, problems: dict[int, str]) -> pa.Array | None:
        """What the user wants done with messages that cannot be read: which rows stay (None: all)."""
        how = self.options.on_decode_error
        if how == "fail":
            why = problems[min(problems)]
            raise AMQPSourceError(
                f"a message cannot be a row: {why}. Option 'onDecodeError' can be 'null' or 'dead-letter' "
                "instead of 'fail'"
            )
        if how == "null":
            return None
        assert self.refuse is not None
        self.refuse([(arrived.message(index), problems[index]) for index in sorted(problems)])
        good = [index for index in range(len(arrived)) if index not in problems]
        return pa.array(good, pa.int64())


# What pyarrow raises for values that are not of a type; a text that is not UTF-8 among them.
UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def fitting(values: list[Any], field: pa.Field, problems: dict[int, str]) -> list[Any]:
    """Those that fit; null, and a problem, in place of the others."""
    found = list(values)
    for index, value in enumerate(values):
        try:
            pa.array([value], field.type)
        except UNFIT as why:
            found[index] = None
            problems.setdefault(index, f"column '{field.name}' cannot be {field.type}: {why}")
    return found


def other_headers(arrived: Arrivals, kind: pa.DataType) -> list[Any] | None:
    """Headers with their types, where the column is no map."""
    if pa.types.is_map(kind):
        return None
    if is_variant(kind):
        found = arrived.texts("headers_json").to_pylist()
        return [as_variant(json.loads(text), []) for text in found]
    return typed_headers(raw_properties(arrived))


def raw_properties(arrived: Arrivals) -> list[bytes]:
    found: list[bytes] = arrived.array(arrived.batch.properties, pa.binary()).to_pylist()
    return found


def bodies_of(arrived: Arrivals, options: Options) -> list[Any]:
    """What a decoder takes: bodies; with the properties of events, which have attributes in headers."""
    bodies: list[Any] = arrived.body.to_pylist()
    if options.format != "cloudevents":
        return bodies
    raw = raw_properties(arrived)
    return [(body, Properties.decode(one, 0, len(one))) for body, one in zip(bodies, raw, strict=True)]


def corrupt_column(arrived: Arrivals, problems: dict[int, str], kind: pa.DataType) -> pa.Array:
    """The bodies of messages with a problem."""
    bodies: list[str | None] = [None] * len(arrived)
    for index in problems:
        bodies[index] = arrived.body[index].as_py().decode("utf-8", "replace")
    return pa.array(bodies, kind)


def as_texts(bodies: pa.Array) -> pa.Array:
    """Bodies as UTF-8; what is none in them is replaced."""
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([body.decode("utf-8", "replace") for body in bodies.to_pylist()], pa.string())
