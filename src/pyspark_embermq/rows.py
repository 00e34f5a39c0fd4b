"""Messages to Arrow record batches, as the query's schema asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from embermq.client import Message
from pyspark_embermq.arrivals import Arrivals
from pyspark_embermq.columns import COLUMNS, DIRECT, MAKERS, maker_of, taken_from
from pyspark_embermq.decoding import Decoder, avro_reader
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options

# Takes messages that could not be read, with the reason: to a dead-letter exchange.
Refuse = Callable[[list[tuple[Message, str]]], None]


def body_fields(schema: StructType, options: Options) -> list[str]:
    """The columns that come from the body; the rest is about the message."""
    if options.format in ("binary", "text"):
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
    if options.format in ("binary", "text"):
        kinds = {**COLUMNS, "body": "string" if options.format == "text" else "binary"}
        for field in schema.fields:
            maker_of(field.name)
            wanted = field.dataType.simpleString()
            if wanted != kinds[field.name]:
                raise AMQPSourceError(
                    f"column {field.name!r} is {kinds[field.name]}; the schema asks for {wanted}"
                )
    elif not body_fields(schema, options):
        raise AMQPSourceError(
            f"option 'format' is {options.format!r}: give the fields of the body with .schema(...)"
        )
    if options.format == "avro":
        avro_reader(options.avro_schema)  # or a sentence


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

    @property
    def wanted(self) -> set[str]:
        """The columns that the client has to hand out."""
        if self.refuse is not None:
            return {*DIRECT, "properties"}  # a whole message may have to go elsewhere
        names = {name for name in self.schema.names if name not in self.from_body}
        if self.decoder is None:
            return {column for name in names for column in taken_from(name)}
        prefix = self.options.metadata_prefix
        names.discard(self.options.corrupt_column)
        return {"body"}.union(*(taken_from(name.removeprefix(prefix)) for name in names))

    @property
    def timed(self) -> bool:
        """Whether it matters when the broker took a message."""
        prefix = "" if self.decoder is None else self.options.metadata_prefix
        return f"{prefix}ingest_timestamp" in self.schema.names

    def batches(self, arrived: Arrivals, queue: str) -> Iterator[pa.RecordBatch]:
        """The rows of what has arrived, in batches that are not too large."""
        size = self.options.batch_rows
        for index in range(0, len(arrived), size):
            yield self.batch(arrived.part(index, index + size), queue)

    def batch(self, arrived: Arrivals, queue: str) -> pa.RecordBatch:
        decoded: dict[str, pa.Array] = {}
        corrupt: list[str | None] = [None] * len(arrived)
        good: pa.Array | None = None  # the rows that stay; None: all
        if self.decoder is not None:
            columns, problems = self.decoder.decode(arrived.body.to_pylist())
            if problems:
                corrupt, good = self.treat(arrived, problems)
            decoded = dict(zip(self.from_body, columns, strict=True))
        arrays = [
            decoded[field.name] if field.name in decoded else self.column(field, arrived, queue, corrupt)
            for field in self.schema
        ]
        if good is not None:
            arrays = [array.take(good) for array in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def column(self, field: pa.Field, arrived: Arrivals, queue: str, corrupt: list[str | None]) -> pa.Array:
        name = field.name
        if self.decoder is not None:
            if name == self.options.corrupt_column:
                return pa.array(corrupt, field.type)
            name = name.removeprefix(self.options.metadata_prefix)
        values = maker_of(name)(arrived, queue)
        if not isinstance(values, pa.Array):
            return pa.array(values, field.type)
        if self.decoder is None and name == "body" and self.options.format == "text":
            values = as_texts(values)
        return values if values.type == field.type else values.cast(field.type)

    def treat(self, arrived: Arrivals, problems: dict[int, str]) -> tuple[list[str | None], pa.Array | None]:
        """What the user wants done with bodies that cannot be read: the corrupt ones, and which rows stay."""
        how = self.options.on_decode_error
        corrupt: list[str | None] = [None] * len(arrived)
        if how == "fail":
            index, why = next(iter(problems.items()))
            raise AMQPSourceError(
                f"a body is not {self.options.format} as the schema has it: {why}; "
                f"it begins with {arrived.body[index].as_py()[:80]!r}. Option 'onDecodeError' can be 'null' "
                "or 'dead-letter' instead of 'fail'"
            )
        if how == "null":
            for index in problems:
                corrupt[index] = arrived.body[index].as_py().decode("utf-8", "replace")
            return corrupt, None
        assert self.refuse is not None
        self.refuse([(arrived.message(index), why) for index, why in problems.items()])
        good = [index for index in range(len(arrived)) if index not in problems]
        return corrupt, pa.array(good, pa.int64())


def as_texts(bodies: pa.Array) -> pa.Array:
    """Bodies as UTF-8; what is none in them is replaced."""
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([body.decode("utf-8", "replace") for body in bodies.to_pylist()], pa.string())
