"""The metadata columns (queue, offset, routing_key, headers, properties): names, types, and their values.

Only the columns that the query's schema names are made, column by column (`wire.columns.property_columns`).
"""

from __future__ import annotations

import base64
import datetime
import json
import time
from collections.abc import Callable, Collection
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from embermq.wire.columns.property_columns import PropertyColumns
from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.errors import AMQPSourceError

TAKEN_MS = "taken_ms"  # of PropertyColumns
MICROSECONDS = 1_000_000
SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799  # of the calendar: the years 1 to 9999

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
NUMBERS = ("delivery_mode", "priority")
PLAIN_PROPERTIES = tuple(name for name in Properties.__slots__ if name not in ("headers", "timestamp"))

Values = Any  # a list or an Arrow array
Column = Callable[[Arrivals, str], Values]


def direct_column(name: str) -> Column:
    return lambda arrived, queue: getattr(arrived, name)


def property_column(name: str) -> Column:
    if name in NUMBERS:
        return lambda arrived, queue: arrived.integers(name).cast(pa.int32())
    return lambda arrived, queue: arrived.texts(name)


def timestamp_column(arrived: Arrivals, queue: str) -> Values:
    """AMQP's timestamp (seconds) as Spark has it; null where it is absent or beyond the calendar."""
    return moments(arrived.integers("timestamp"), 1)


def moments(numbers: pa.Array, per_second: int) -> pa.Array:
    """Times since 1970 in a unit of so many to the second; null where that is beyond the calendar."""
    from pyarrow import compute  # here: it is slow to import, and planning a query does without

    low, high = SECONDS_MIN * per_second, (SECONDS_MAX + 1) * per_second
    known = compute.and_(compute.greater_equal(numbers, low), compute.less(numbers, high))
    if known.false_count:
        numbers = compute.if_else(known, numbers, None)
    return compute.multiply(numbers, MICROSECONDS // per_second).cast(pa.timestamp("us", "UTC"))


def ingest_column(arrived: Arrivals, queue: str) -> Values:
    """When the broker took the message where it says so, else when we did; a header that names a time beyond
    the calendar says nothing."""
    now = pa.scalar(int(time.time() * MICROSECONDS), pa.timestamp("us", "UTC"))
    return moments(arrived.integers(TAKEN_MS), 1000).fill_null(now)


def headers_column(arrived: Arrivals, queue: str) -> Values:
    """A map; where a name or text is not UTF-8, a list of dicts, to be looked at one by one."""
    found = arrived.header_maps()
    if is_utf8(found.keys) and is_utf8(found.items):
        return found
    places, keys, items = found.offsets.to_pylist(), escaped(found.keys), escaped(found.items)
    return [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in pairwise(places)]


def is_utf8(texts: pa.Array) -> bool:
    """Are the bytes of all of them UTF-8? They were taken as they came."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def escaped(texts: pa.Array) -> list[str | None]:
    """As Python has texts of which some are not UTF-8."""
    raw = texts.cast(pa.binary()).to_pylist()
    return [None if one is None else one.decode("utf-8", "surrogateescape") for one in raw]


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


def json_of(value: Any) -> str:
    """Headers, or the value of one, as the column `headers_json` has them."""
    return json.dumps(typed(value), default=as_json, sort_keys=True)


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
    "headers_json": lambda arrived, queue: arrived.texts("headers_json"),
    "timestamp": timestamp_column,
    "ingest_timestamp": ingest_column,
    **{name: direct_column(name) for name in DIRECT},
    **{name: property_column(name) for name in PLAIN_PROPERTIES},
}


def property_columns(names: Collection[str]) -> PropertyColumns | None:
    """What takes the properties apart for these columns; None if none of them is made of properties."""
    wanted = {TAKEN_MS if name == "ingest_timestamp" else name for name in names if name not in DIRECT}
    wanted.discard("queue")
    return PropertyColumns(wanted, as_text, json_of) if wanted else None


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
