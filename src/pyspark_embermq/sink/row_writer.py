"""Columns of the sink: which say where a message goes, which are its properties, which its body.

Where the body is made of columns (`json`, `avro`, ...) those about the message begin with the option
`metadataPrefix`, as they do in reading, and all others are fields of the body.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from embermq.client import Channel, Confirmation, Outgoing, Properties
from embermq.wire.table import Timestamp
from pyspark_embermq.decoding.columns import PLAIN_PROPERTIES
from pyspark_embermq.encoding.headers import headers_from
from pyspark_embermq.encoding.json_bodies import can_be_json, json_bodies
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats import avro, cloudevents, msgpack, protobuf, schema_registry, typed_headers
from pyspark_embermq.options import AS_THEY_ARE, Options
from pyspark_embermq.sink.message_columns import (
    DEDUPLICATION_HEADER,
    NUMBERS,
    MessageColumns,
    goes_as_columns,
)

# Columns with a meaning; `deduplication_id` gives the id that the source would else make up.
ADDRESS = ("exchange", "routing_key")
KNOWN = {*ADDRESS, "body", "headers", "timestamp", "deduplication_id", *PLAIN_PROPERTIES}
# What a message read from here has too, and cannot be set; the typed headers count if there are no others.
PASSED_OVER = {"queue", "offset", "redelivered", "ingest_timestamp", "headers_json"}


# In such a body there is a place for everything but these.
NOT_IN_BODY = (KNOWN | PASSED_OVER) - {"body"}


def column_name(name: str, options: Options) -> str:
    """What the column that says something about the message is called."""
    return options.column_prefix + name


def meaning(column: str, options: Options) -> str:
    """What a column says about the message; empty: it is a field of the body."""
    if options.format in AS_THEY_ARE:
        return column
    name = column.removeprefix(options.metadata_prefix)
    return name if column == column_name(name, options) and name in NOT_IN_BODY else ""


def check_columns(schema: StructType, options: Options) -> None:
    """On the driver: can rows of this schema be sent?"""
    names = schema.fieldNames()
    if options.format in AS_THEY_ARE:
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
    elif options.format == "csv":
        raise AMQPSourceError("rows cannot be sent as csv: make a text of them with to_csv, and send that")
    else:
        check_body(schema, options)
    for field in schema.fields:
        check_column(field, options)
    exchange, routing_key = column_name("exchange", options), column_name("routing_key", options)
    if not (options.exchange or options.routing_key or exchange in names or routing_key in names):
        raise AMQPSourceError(
            "nothing says where the messages go: give option 'exchange' or 'routingKey' (the name of a "
            f"queue), or columns {exchange!r} or {routing_key!r}"
        )


def check_column(field: StructField, options: Options) -> None:
    name = meaning(field.name, options)
    is_json = not name and options.format == "json"
    if is_json and not can_be_json(to_arrow_type(field.dataType, timezone="UTC")):
        raise AMQPSourceError(
            f"column {field.name!r} is {field.dataType.simpleString()}, which has no form in JSON: cast it "
            "to a string"
        )
    if name == "headers":
        typed_headers.check_kind(field.name, field.dataType)
    wanted = kinds_of(name)
    if wanted and not isinstance(field.dataType, wanted):
        names_of_kinds = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in wanted)
        raise AMQPSourceError(
            f"column {field.name!r} is {field.dataType.simpleString()}; expected {names_of_kinds}"
        )


def kinds_of(name: str) -> tuple[type[DataType], ...]:
    """The types that a column may have that says something about the message; none: any."""
    if name == "body":
        return (BinaryType, StringType)
    if name == "headers":
        return (MapType, ArrayType, VariantType)
    if name == "timestamp":
        return (TimestampType,)
    if name in NUMBERS:
        return (IntegralType,)
    if name in (*ADDRESS, "deduplication_id", "headers_json", *PLAIN_PROPERTIES):
        return (StringType,)
    return ()


def check_body(schema: StructType, options: Options) -> None:
    """Can the columns that are fields of the body be written in its format?"""
    fields = {field.name: field.dataType for field in schema.fields if not meaning(field.name, options)}
    if options.format == "cloudevents":
        cloudevents.check_fields({name: kind.simpleString() for name, kind in fields.items()})
        is_binary = options.cloud_events_mode == cloudevents.BINARY
        if is_binary and column_name("headers", options) in schema.names:
            raise AMQPSourceError(
                "attributes of an event are headers in binary mode: put others into the map 'extensions'"
            )
    elif options.format == "protobuf":
        protobuf.check_fields(options, list(fields))
    elif options.format == "msgpack":
        msgpack.msgpack_module()


def prepared(schema: StructType, options: Options) -> Options:
    """On the driver: with what executors would have to look up in files or at a registry."""
    if options.format == "protobuf":
        return replace(options, protobuf_descriptor=protobuf.embedded(options.protobuf_descriptor))
    if options.format != "avro":
        return options
    fields = [field for field in schema.fields if not meaning(field.name, options)]
    text = options.avro_schema
    if not text:
        text = avro.avro_schema_of(to_arrow_schema(StructType(fields), timezone="UTC"))
    avro.parsed(text)  # or a sentence
    number = options.schema_id
    if options.schema_registry and not number:
        number = schema_registry.schema_id(options.schema_registry, options.schema_subject, text)
    return replace(options, avro_schema=text, schema_id=number)


def encoded(fields: dict[str, pa.Array], count: int, options: Options) -> dict[str, pa.Array]:
    """The columns of a message that are made of the fields of its body."""
    if options.format == "avro":
        return {"body": avro.avro_bodies(fields, count, options)}
    if options.format == "protobuf":
        return {"body": protobuf.protobuf_bodies(fields, count, options)}
    if options.format == "msgpack":
        return {"body": msgpack.msgpack_bodies(fields, count)}
    if options.format == "cloudevents":
        return cloudevents.event_columns(fields, count, options.cloud_events_mode)
    return {"body": json_bodies(fields, count)}


def with_body(batch: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    """What is about the message under its plain name, and a body of all other columns."""
    if options.format in AS_THEY_ARE:
        return batch
    fields: dict[str, pa.Array] = {}
    found: dict[str, pa.Array] = {}
    for column, array in zip(batch.schema.names, batch.columns, strict=True):
        name = meaning(column, options)
        if name:
            found[name] = array
        else:
            fields[column] = array
    return pa.RecordBatch.from_pydict({**found, **encoded(fields, batch.num_rows, options)})


def headers_of(found: dict[str, Any] | None) -> dict[str, Any]:
    """A map, or a variant, as pyarrow has it."""
    if found and set(found) == {"value", "metadata"} and isinstance(found["metadata"], bytes):
        return headers_from(VariantVal(found["value"], found["metadata"]).toJson())
    return found or {}


CONTENT_TYPES = {
    "json": "application/json",
    "avro": "application/avro",
    "protobuf": "application/protobuf",
    "msgpack": "application/msgpack",
}


class Sender:
    """Made for one task: record batches in, messages out."""

    def __init__(self, options: Options, prefix: str) -> None:
        self.options = options
        self.prefix = prefix  # of deduplication ids; "" for none
        self.row = 0
        self.fixed = self.fixed_properties()

    def fixed_properties(self) -> dict[str, Any]:
        kind = self.options.content_type or CONTENT_TYPES.get(self.options.format)
        return {"content_type": kind, "delivery_mode": 2 if self.options.persistent else 1}

    def publish(self, channel: Channel, batch: pa.RecordBatch) -> Confirmation:
        """Publish the rows of a batch; what is to be waited for."""
        try:
            return self.publish_soon(channel, batch)
        except (ValueError, OverflowError) as error:
            raise AMQPSourceError(f"a row cannot be a message: {error}") from error

    def publish_soon(self, channel: Channel, batch: pa.RecordBatch) -> Confirmation:
        options = self.options
        batch = with_body(batch, options)
        if not goes_as_columns(batch.schema):
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
        if "headers" not in row and row.get("headers_json"):
            row["headers"] = headers_from(row["headers_json"])
        given = row.pop("headers", None)
        structs = given if isinstance(given, list) else None
        headers: dict[str, object] = {} if structs else dict(headers_of(given))
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
        body: bytes | str | None = row["body"]
        made = Properties(**properties)
        return Outgoing(
            b"" if body is None else body,
            self.options.routing_key or routing_key or "",
            self.options.exchange or exchange or "",
            typed_headers.encoded_with(made, structs) if structs else made,
        )
