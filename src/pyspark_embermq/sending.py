"""Rows to messages: which columns say where a message goes and what it carries."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from embermq.client import Channel, Confirmation, Outgoing, Properties
from embermq.wire.table import Timestamp
from pyspark_embermq.columns import PLAIN_PROPERTIES, as_text
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.headers import headers_from
from pyspark_embermq.message_columns import DEDUPLICATION_HEADER, NUMBERS, MessageColumns, goes_as_columns
from pyspark_embermq.options import Options

# Columns with a meaning; `deduplication_id` gives the id that the source would else make up.
ADDRESS = ("exchange", "routing_key")
KNOWN = {*ADDRESS, "body", "headers", "timestamp", "deduplication_id", *PLAIN_PROPERTIES}
# What a message read from here has too, and nobody can set; the typed headers count if there are no others.
PASSED_OVER = {"queue", "offset", "redelivered", "ingest_timestamp", "headers_json"}


def check_columns(schema: StructType, options: Options) -> None:
    """On the driver: can rows of this schema be sent?"""
    names = schema.fieldNames()
    if options.format in ("binary", "text"):
        if "body" not in names:
            raise AMQPSourceError(
                f"rows need a column 'body' (binary or string); there are {', '.join(names)}. "
                "Or say option 'format' = 'json' to send the other columns as a JSON object"
            )
        unknown = [name for name in names if name not in KNOWN | PASSED_OVER]
        if unknown:
            raise AMQPSourceError(
                f"nobody knows what to do with column {unknown[0]!r}; known are {', '.join(sorted(KNOWN))}. "
                "Drop it, or say option 'format' = 'json' to send it in the body"
            )
    elif options.format != "json":
        raise AMQPSourceError(f"rows can be sent as binary, text or json, not as {options.format!r}")
    for field in schema.fields:
        wanted = kinds_of(field.name, options)
        if wanted and not isinstance(field.dataType, wanted):
            names_of_kinds = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in wanted)
            raise AMQPSourceError(
                f"column {field.name!r} is {field.dataType.simpleString()}; expected {names_of_kinds}"
            )
    if (
        not options.exchange
        and "exchange" not in names
        and not options.routing_key
        and "routing_key" not in names
    ):
        raise AMQPSourceError(
            "nothing says where the messages go: give option 'exchange' or 'routingKey' (the name of a "
            "queue), or columns of these names"
        )


def kinds_of(name: str, options: Options) -> tuple[type[DataType], ...]:
    """The types that a column may have; none: it is part of a JSON body."""
    if name == "body" and options.format != "json":
        return (BinaryType, StringType)
    if name == "headers":
        return (MapType,)
    if name == "timestamp":
        return (TimestampType,)
    if name in NUMBERS:
        return (IntegralType,)
    if name in (*ADDRESS, "deduplication_id", *PLAIN_PROPERTIES):
        return (StringType,)
    return ()


class Sender:
    """Made for one task: record batches in, messages out."""

    def __init__(self, options: Options, prefix: str) -> None:
        self.options = options
        self.prefix = prefix  # of deduplication ids; "" for none
        self.row = 0
        self.fixed = self.fixed_properties()

    def fixed_properties(self) -> dict[str, Any]:
        kind = self.options.content_type or ("application/json" if self.options.format == "json" else None)
        return {"content_type": kind, "delivery_mode": 2 if self.options.persistent else 1}

    def publish(self, channel: Channel, batch: pa.RecordBatch) -> Confirmation:
        """Publish the rows of a batch; what is to be waited for."""
        try:
            return self.publish_soon(channel, batch)
        except (ValueError, OverflowError) as error:
            raise AMQPSourceError(f"a row cannot be a message: {error}") from error

    def publish_soon(self, channel: Channel, batch: pa.RecordBatch) -> Confirmation:
        options = self.options
        if not goes_as_columns(batch.schema, options):
            messages = self.messages(batch)
            return channel.publish_batch_soon(messages, mandatory=options.mandatory)
        columns = MessageColumns(batch, options, self.fixed, self.prefix, self.row)
        self.row += batch.num_rows
        return channel.publish_columns_soon(
            columns.bodies(),
            columns.address("routing_key", options.routing_key),
            columns.address("exchange", options.exchange),
            properties=columns.properties(),
            mandatory=options.mandatory,
        )

    def messages(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield self.message(row)
            self.row += 1

    def message(self, row: dict[str, Any]) -> Outgoing:
        exchange = row.pop("exchange", None)
        routing_key = row.pop("routing_key", None)
        properties = dict(self.fixed)
        if "headers" not in row and self.options.format != "json" and row.get("headers_json"):
            row["headers"] = headers_from(row["headers_json"])
        headers: dict[str, object] = dict(row.pop("headers", None) or {})
        moment = row.pop("timestamp", None)
        if isinstance(moment, datetime.datetime):
            properties["timestamp"] = Timestamp(int(moment.timestamp()))
        for name in PLAIN_PROPERTIES:
            value = row.pop(name, None)
            if value is not None:
                properties[name] = value
        given_id = row.pop("deduplication_id", None)
        if given_id is not None:
            headers[DEDUPLICATION_HEADER] = given_id
        elif self.prefix:
            headers[DEDUPLICATION_HEADER] = f"{self.prefix}/{self.row}"
        if headers:
            properties["headers"] = headers
        return Outgoing(
            self.body(row),
            self.options.routing_key or routing_key or "",
            self.options.exchange or exchange or "",
            Properties(**properties),
        )

    def body(self, row: dict[str, Any]) -> bytes | str:
        if self.options.format == "json":
            return json.dumps(row, default=as_text, ensure_ascii=False)
        body: bytes | str | None = row["body"]
        return b"" if body is None else body
