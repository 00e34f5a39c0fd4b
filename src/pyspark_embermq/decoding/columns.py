"""The metadata columns (queue, offset, routing_key, headers, properties): names, types, and their values.

Only the columns that the query's schema names are made; properties and headers are not decoded unless one
of them is asked for.
"""

from __future__ import annotations

import base64
import datetime
import json
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.errors import AMQPSourceError

UTC = datetime.UTC
OFFSET, TAKEN_MS = "x-stream-offset", "x-stream-timestamp"


# In the order in which they stand in the schema.
COLUMNS: dict[str, str] = {
    "queue": "string",
    "offset": "bigint",
    "exchange": "string",
    "routing_key": "string",
    "body": "binary",
    "headers": "map<string,string>",
    "headers_json": "string",
    "content_type": "string",
    "content_encoding": "string",
    "delivery_mode": "int",
    "priority": "int",
    "correlation_id": "string",
    "reply_to": "string",
    "expiration": "string",
    "message_id": "string",
    "timestamp": "timestamp",
    "type": "string",
    "user_id": "string",
    "app_id": "string",
    "cluster_id": "string",
    "redelivered": "boolean",
    "ingest_timestamp": "timestamp",
}
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
TEXT_SCHEMA = SCHEMA.replace("`body` binary", "`body` string")

# The properties that are a column of their own as they are.
PLAIN_PROPERTIES = tuple(name for name in Properties.__slots__ if name not in ("headers", "timestamp"))

Values = Any  # a list or an Arrow array
Column = Callable[[Arrivals, str], Values]


def direct_column(name: str) -> Column:
    return lambda arrived, queue: getattr(arrived, name)


def property_column(name: str) -> Column:
    return lambda arrived, queue: [getattr(properties, name) for properties in arrived.properties]


def timestamp_column(arrived: Arrivals, queue: str) -> Values:
    return [moment(properties.timestamp) for properties in arrived.properties]


def moment(value: Any) -> datetime.datetime | None:
    """AMQP's timestamp (seconds) as Spark has it; None where it is absent or beyond the calendar."""
    if value is None or isinstance(value, datetime.datetime):
        return value
    return calendar_time(int(value))


def calendar_time(seconds: float) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def ingest_column(arrived: Arrivals, queue: str) -> Values:
    """When the broker took the message where it says so, else when we did; a header that names a time beyond
    the calendar says nothing."""
    now = datetime.datetime.fromtimestamp(time.time(), UTC)
    found: list[Any] = []
    for headers in arrived.headers:
        taken_ms = headers.get(TAKEN_MS, headers.get("timestamp_in_ms"))
        taken = calendar_time(taken_ms / 1000) if isinstance(taken_ms, int) else None
        found.append(taken or now)
    return found


def own_headers(headers: dict[str, Any]) -> dict[str, Any]:
    """Without the offset and the time that the broker adds: they have columns."""
    return {name: value for name, value in headers.items() if name not in (OFFSET, TAKEN_MS)}


def headers_column(arrived: Arrivals, queue: str) -> Values:
    return [
        {name: as_text(value) for name, value in own_headers(headers).items()} for headers in arrived.headers
    ]


def headers_json_column(arrived: Arrivals, queue: str) -> Values:
    return [
        json.dumps(typed(own_headers(headers)), default=as_json, sort_keys=True)
        for headers in arrived.headers
    ]


def as_text(value: Any) -> str | None:
    """A header's value in a map of strings: texts as they are, everything else as JSON has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | Decimal):
        return str(value)
    return json.dumps(value, default=as_json, sort_keys=True)


def typed(value: Any) -> Any:
    """Timestamps are numbers to Python: named before JSON writes them as such."""
    if isinstance(value, Timestamp):
        return {"$timestamp": int(value)}
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return value


def as_json(value: Any) -> Any:
    """Types that JSON has not: each keeps its name, so that nothing is taken for something else."""
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"$timestamp": value.isoformat()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    return str(value)


# Those that the client hands out as they are; everything else takes the properties to be decoded.
DIRECT = ("body", "exchange", "offset", "redelivered", "routing_key")

MAKERS: dict[str, Column] = {
    "queue": lambda arrived, queue: pa.repeat(pa.scalar(queue, pa.string()), len(arrived)),
    "headers": headers_column,
    "headers_json": headers_json_column,
    "timestamp": timestamp_column,
    "ingest_timestamp": ingest_column,
    **{name: direct_column(name) for name in DIRECT},
    **{name: property_column(name) for name in PLAIN_PROPERTIES},
}


def taken_from(name: str) -> set[str]:
    """The client's columns that a column is made of."""
    return set() if name == "queue" else {name if name in DIRECT else "properties"}


def maker_of(name: str) -> Column:
    maker = MAKERS.get(name)
    if maker is None:
        raise AMQPSourceError(
            f"there is no column {name!r}; a message has {', '.join(COLUMNS)} "
            "(fields of its body: say with option 'format' how to read it)"
        )
    return maker
