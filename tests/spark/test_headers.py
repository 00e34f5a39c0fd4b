"""Headers there and back: what the column `headers_json` has is sent with the types it had."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from embermq.client import Channel, Outgoing, Properties
from embermq.wire.table import Timestamp, encode_typed
from pyspark_embermq.decoding.columns import as_json, typed
from pyspark_embermq.encoding.headers import headers_from
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats.typed_headers import KIND, NAMES, encoded_with, fields_in, typed_headers


def test_types_come_back() -> None:
    headers = {
        "n": 7,
        "text": "x",
        "at": Timestamp(1_700_000_000),
        "raw": b"\x00\xff",
        "price": Decimal("1.50"),
        "nothing": None,
        "x-death": [{"count": 2, "time": Timestamp(1_700_000_001), "queue": "q"}],
    }
    found = headers_from(json.dumps(typed(headers), default=as_json))
    assert found == headers
    assert isinstance(found["at"], Timestamp) and isinstance(found["x-death"][0]["time"], Timestamp)
    then = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
    assert headers_from(json.dumps({"at": then}, default=as_json)) == {"at": int(then.timestamp())}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": {"$bytes": "x"}}'])
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(AMQPSourceError, match="column 'headers_json' has"):
        headers_from(text)


EVERY_TYPE: list[tuple[str, str, object]] = [
    ("i8", "b", -5),
    ("u8", "B", 200),
    ("i16", "s", -300),
    ("u16", "u", 60_000),
    ("i32", "I", -70_000),
    ("u32", "i", 4_000_000_000),
    ("i64", "l", 5),
    ("L", "L", 2**40),
    ("float", "f", 0.5),
    ("double", "d", 0.1),
    ("decimal", "D", Decimal("1.50")),
    ("yes", "t", True),
    ("when", "T", Timestamp(1_700_000_000)),
    ("text", "S", "caf\u00e9"),
    ("raw", "x", b"\0\xff"),
    ("nothing", "V", None),
    ("table", "F", [("n", "s", 1), ("deep", "A", [("b", 1), ("F", [("x", "f", 2.0)])])]),
    ("list", "A", [("u", 1), ("S", "a"), ("V", None)]),
]


def encoded(fields: list[tuple[str, str, object]], properties: Properties) -> bytes:
    structs = typed_headers([b"\x20\0" + encode_typed(fields)])[0]
    return encoded_with(properties, structs)


def test_every_type_of_header_there_and_back() -> None:
    for properties in (
        Properties(),
        Properties(content_type="text/plain", content_encoding="gzip", delivery_mode=2, app_id="a"),
        Properties(content_type="x", headers={"x-deduplication-id": "i"}, timestamp=5),
    ):
        raw = encoded(EVERY_TYPE, properties)
        own = [(name, "S", value) for name, value in (properties.headers or {}).items()]
        assert fields_in(raw) == [*EVERY_TYPE, *own]
        found = Properties.decode(raw, 0, len(raw))
        for name in Properties.__slots__:
            assert name == "headers" or getattr(found, name) == getattr(properties, name)
    assert typed_headers([b"\0\0"]) == [[]]
    assert encoded_with(Properties(priority=3), None) == Properties(priority=3).encode()


@pytest.mark.parametrize(
    ("struct", "problem"),
    [
        ({"name": "a", "type": "int", "value": "1"}, "has the type 'int'; expected one of int8"),
        ({"name": "a", "type": "int8", "value": "1000"}, "does not fit"),
        ({"name": "a", "type": "boolean", "value": "yes"}, "has the value 'yes'"),
        ({"name": "a", "type": "table", "value": "{"}, "of the type table"),
        ({"name": "a", "type": "bytes", "value": "?"}, "of the type bytes"),
    ],
)
def test_structs_that_are_no_headers(struct: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encoded_with(Properties(), [struct])


def test_a_header_that_is_there_twice() -> None:
    with pytest.raises(ValueError, match="header 'a' is there twice"):
        encoded_with(Properties(), [{"name": "a", "type": "string", "value": "1"}] * 2)


def test_headers_keep_their_types_through_spark(spark: SparkSession, channel: Channel, url: str) -> None:
    """Copied by Spark: as structs the same bytes, as a variant the same values."""
    for name in ("from", "structs", "variants"):
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    raw = encoded(EVERY_TYPE, Properties(content_type="text/plain", priority=3))
    channel.publish_batch([Outgoing(b"body", "from", properties=raw)])
    for name, kind in (("structs", KIND), ("variants", "variant")):
        reader = spark.read.format("amqp").option("url", url).option("queue", "from")
        frame = reader.schema(f"body binary, headers {kind}, content_type string, priority int").load()
        frame.write.format("amqp").mode("append").option("url", url).option("routingKey", name).save()
    structs = spark.read.format("amqp").option("url", url).option("queue", "structs")
    (row,) = structs.schema(f"headers {KIND}, content_type string, priority int").load().collect()
    assert [(one.name, one.type) for one in row.headers] == [
        (name, NAMES[letter]) for name, letter, _ in EVERY_TYPE
    ]
    assert (row.content_type, row.priority, row.headers[1].value) == ("text/plain", 3, "200")
    plain = [
        spark.read.format("amqp").option("url", url).option("queue", name).load().collect()[0].headers_json
        for name in ("from", "structs", "variants")
    ]
    assert plain[0] == plain[1] and json.loads(plain[0]) == json.loads(plain[2])
    odd = spark.createDataFrame([(b"1", ["x"])], "body binary, headers array<string>")
    with pytest.raises(PySparkException, match="expected array<struct<name:string"):
        odd.write.format("amqp").mode("append").option("url", url).option("routingKey", "structs").save()
