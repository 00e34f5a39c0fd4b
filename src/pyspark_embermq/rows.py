"""Messages to Arrow record batches, as the query's schema asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_embermq.columns import COLUMNS, MAKERS, Received, maker_of
from pyspark_embermq.decoding import Decoder
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options

# Takes messages that could not be read, with the reason: to a dead-letter exchange.
Refuse = Callable[[list[tuple[Received, str]]], None]


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

    def batch(self, messages: Sequence[Received], queue: str) -> pa.RecordBatch:
        decoded: dict[str, pa.Array] = {}
        corrupt: list[str | None] = [None] * len(messages)
        if self.decoder is not None:
            columns, problems = self.decoder.decode([message.body for message in messages])
            if problems:
                messages, columns, corrupt = self.treat(messages, columns, problems)
            decoded = dict(zip(self.from_body, columns, strict=True))
        arrays = [
            decoded[field.name] if field.name in decoded else self.column(field, messages, queue, corrupt)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def column(
        self, field: pa.Field, messages: Sequence[Received], queue: str, corrupt: list[str | None]
    ) -> pa.Array:
        if self.decoder is not None:
            if field.name == self.options.corrupt_column:
                return pa.array(corrupt, field.type)
            values = maker_of(field.name.removeprefix(self.options.metadata_prefix))(messages, queue)
        else:
            values = maker_of(field.name)(messages, queue)
            if field.name == "body" and self.options.format == "text":
                values = [body.decode("utf-8", "replace") for body in values]
        return pa.array(values, field.type)

    def treat(
        self, messages: Sequence[Received], columns: list[pa.Array], problems: dict[int, str]
    ) -> tuple[Sequence[Received], list[pa.Array], list[str | None]]:
        """What the user wants done with bodies that cannot be read."""
        how = self.options.on_decode_error
        if how == "fail":
            index, why = next(iter(problems.items()))
            raise AMQPSourceError(
                f"a body is not {self.options.format} as the schema has it: {why}; "
                f"it begins with {messages[index].body[:80]!r}. Option 'onDecodeError' can be 'null' or "
                "'dead-letter' instead of 'fail'"
            )
        if how == "null":
            corrupt: list[Any] = [None] * len(messages)
            for index in problems:
                corrupt[index] = messages[index].body.decode("utf-8", "replace")
            return messages, columns, corrupt
        assert self.refuse is not None
        self.refuse([(messages[index], why) for index, why in problems.items()])
        good = [index for index in range(len(messages)) if index not in problems]
        return (
            [messages[index] for index in good],
            [column.take(pa.array(good, pa.int64())) for column in columns],
            [None] * len(good),
        )
