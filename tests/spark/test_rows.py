"""Messages as rows: columns, bodies decoded, and what becomes of those that cannot be read."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, VariantVal

from embermq.client import Message as Delivered
from embermq.client.core.columns import Columns
from embermq.wire.primitive import encode_shortstr
from embermq.wire.properties import Properties
from pyspark_embermq.decoding.columns import SCHEMA
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.decoding.rows import RowMaker, check_schema
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options

UTC = datetime.UTC


@dataclass
class Message:
    body: bytes = b""
    exchange: str = "shop"
    routing_key: str = "order.new"
    redelivered: bool = False
    properties: Properties = field(default_factory=Properties)


def arrived(messages: list[Message], wanted: set[str]) -> Arrivals:
    """As if they had come from a broker; what is not wanted is not there."""
    columns = Columns(wanted)
    for message in messages:
        names = bytearray(encode_shortstr(message.exchange) + encode_shortstr(message.routing_key))
        raw, body = bytearray(message.properties.encode()), bytearray(message.body)
        columns.on_deliver(names, 1, message.redelivered, 0, len(names))
        columns.on_header(raw, 0, len(raw))
        columns.on_body(body, 0, len(body))
        columns.whole()
    return Arrivals(columns.take(0))


@pytest.fixture(autouse=True)
def types_can_be_written_as_text(spark: SparkSession) -> None:
    """`fromDDL` asks Spark's own parser."""


def schema(text: str) -> StructType:
    return StructType.fromDDL(text)


def rows(text: str, messages: list[Message], refused: list[Any] | None = None, **options: Any) -> Any:
    chosen = Options(**options)
    check_schema(schema(text), chosen)
    maker = RowMaker(schema(text), chosen, None if refused is None else refused.extend)
    return maker.batch(arrived(messages, maker.wanted), "orders").to_pylist()


def test_every_column() -> None:
    properties = Properties(
        content_type="text/plain",
        headers={"x-stream-offset": 7, "n": 1, "t": {"a": [1, None]}, "b": b"\xff", "s": "text"},
        delivery_mode=2,
        priority=4,
        timestamp=1_700_000_000,
        app_id="app",
    )
    (row,) = rows(SCHEMA, [Message(b"\x00one", properties=properties, redelivered=True)])
    assert (row["queue"], row["offset"], row["exchange"], row["routing_key"]) == (
        "orders",
        7,
        "shop",
        "order.new",
    )
    assert (row["body"], row["redelivered"], row["delivery_mode"], row["priority"]) == (
        b"\x00one",
        True,
        2,
        4,
    )
    assert row["timestamp"] == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert dict(row["headers"])["t"] == '{"a": [1, null]}'
    assert dict(row["headers"])["s"] == "text" and dict(row["headers"])["n"] == "1"
    assert json.loads(row["headers_json"])["b"] == {"$bytes": "/w=="}
    assert (row["content_type"], row["app_id"], row["reply_to"]) == ("text/plain", "app", None)
    assert abs(row["ingest_timestamp"] - datetime.datetime.now(UTC)) < datetime.timedelta(minutes=1)


def test_only_the_columns_asked_for_are_made() -> None:
    assert rows("body binary, queue string", [Message(b"one")]) == [{"body": b"one", "queue": "orders"}]
    for text, wanted in [
        ("body binary, queue string", {"body"}),
        ("queue string", set()),
        ("offset bigint, routing_key string", {"offset", "routing_key"}),
        ("headers map<string,string>, app_id string", {"properties"}),
    ]:
        assert RowMaker(schema(text), Options()).wanted == wanted
    fields = schema("id int, _routing_key string, _corrupt_record string")
    assert RowMaker(fields, Options(format="json")).wanted == {"body", "routing_key"}


def test_large_batches_are_cut() -> None:
    maker = RowMaker(schema("body binary, routing_key string"), Options(batch_rows=2))
    found = [
        batch.to_pylist()
        for batch in maker.batches(arrived([Message(b"%d" % n) for n in range(5)], maker.wanted), "q")
    ]
    assert [[row["body"] for row in batch] for batch in found] == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_offsets_where_there_are_some() -> None:
    """A header that only looks like the offset is not taken for it."""
    field = b"\x0fx-stream-offsetl"
    in_stream = Properties(headers={"x-stream-offset": 2**40})
    tricky = Properties(headers={"note": field.decode() + "12345678", "x-stream-offset": 2**40 + 9})
    trickier = Properties(headers={"note": (field * 3).decode() + "12345678"})
    messages = [Message(properties=properties) for properties in (in_stream, Properties(), tricky, trickier)]
    assert [row["offset"] for row in rows("offset bigint", messages)] == [2**40, None, 2**40 + 9, None]


def test_text() -> None:
    assert rows("body string", [Message("é".encode()), Message(b"\xff")], format="text") == [
        {"body": "é"},
        {"body": "�"},
    ]


JSON = "id int, name string, tags array<string>, _routing_key string"


def test_json() -> None:
    found = rows(
        JSON, [Message(b'{"id": 1, "name": "a", "tags": ["x"], "more": {}}'), Message(b"{}")], format="json"
    )
    assert found == [
        {"id": 1, "name": "a", "tags": ["x"], "_routing_key": "order.new"},
        {"id": None, "name": None, "tags": None, "_routing_key": "order.new"},
    ]


def test_json_of_further_kinds() -> None:
    text = "m map<string,int>, d decimal(10,2), t timestamp"
    (row,) = rows(text, [Message(b'{"m": {"a": 1}}\n')], format="json")
    assert dict(row["m"]) == {"a": 1} and row["d"] is None


TYPED = "t timestamp, d decimal(10,2), l array<struct<t: timestamp>>"
TYPED_BODY = b'{"t": "2026-01-02T03:04:05Z", "d": 1.25, "l": [{"t": "2026-01-02 03:04:05", "x": 1}]}'


def test_a_bad_body_changes_nothing_for_its_neighbours() -> None:
    good = [Message(TYPED_BODY)] * 40
    alone = rows(TYPED, good, format="json")
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert alone == [{"t": moment, "d": Decimal("1.25"), "l": [{"t": moment}]}] * 40
    for bad in (b"nonsense", b"", b' {"t": "tomorrow"}', b"{}{}"):
        beside = rows(TYPED, [*good[:30], Message(bad), *good[30:]], format="json", on_decode_error="null")
        assert beside[:30] + beside[31:] == alone and beside[30] == {"t": None, "d": None, "l": None}


def test_two_objects_in_one_body_do_not_pass_for_those_of_an_empty_one() -> None:
    found = rows(
        "id int", [Message(b'{"id": 1}{"id": 2}'), Message(b" ")], format="json", on_decode_error="null"
    )
    assert found == [{"id": None}, {"id": None}]


def test_a_day_in_json_and_a_time_without_a_zone_in_csv() -> None:
    assert rows("d date", [Message(b'{"d": "2024-02-29"}')], format="json") == [
        {"d": datetime.date(2024, 2, 29)}
    ]
    for text in (b"2026-01-02 03:04:05", b"2026-01-02T03:04:05Z", b"2026-01-02T04:04:05+01:00"):
        (row,) = rows("t timestamp", [Message(text)], format="csv")
        assert row["t"] == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


BAD = [Message(b'{"id": 1}'), Message(b'{"id": "one"}'), Message(b"nonsense"), Message(b"[1]"), Message(b"")]


def test_a_bad_body_fails_with_a_sentence() -> None:
    with pytest.raises(AMQPSourceError, match=r"its body is not json as the schema has it: .*it begins with"):
        rows("id int", BAD, format="json")


def test_bad_bodies_as_null() -> None:
    found = rows("id int, _corrupt_record string", BAD, format="json", on_decode_error="null")
    assert [row["id"] for row in found] == [1, None, None, None, None]
    assert [row["_corrupt_record"] for row in found] == [None, '{"id": "one"}', "nonsense", "[1]", ""]


def test_bad_bodies_as_dead_letters() -> None:
    refused: list[tuple[Delivered, str]] = []
    found = rows(
        "id int, _queue string",
        BAD,
        refused,
        format="json",
        on_decode_error="dead-letter",
        dead_letter_exchange="dlx",
    )
    assert found == [{"id": 1, "_queue": "orders"}]
    assert [message.body for message, _ in refused] == [message.body for message in BAD[1:]]
    assert all(why for _, why in refused)


def test_bodies_are_not_joined() -> None:
    halves = [Message(b'{"id": 1,', routing_key="a"), Message(b'"name": "x"}', routing_key="b")]
    found = rows("id int, name string, _routing_key string", halves, format="json", on_decode_error="null")
    assert found == [
        {"id": None, "name": None, "_routing_key": "a"},
        {"id": None, "name": None, "_routing_key": "b"},
    ]


@pytest.mark.parametrize("first", [b"null", b"[]", b"1", b"{}", b'"x"'])
def test_whatever_comes_first(first: bytes) -> None:
    messages = [Message(first), Message(b'{"id": 1}')]
    found = rows("id int, r struct<x: int>", messages, format="json", on_decode_error="null")
    assert found == [{"id": None, "r": None}, {"id": 1, "r": None}]


def test_a_variant() -> None:
    (row,) = rows("v variant", [Message(b'{"v": {"a": [1, 2.50, null]}}')], format="json")
    assert VariantVal(row["v"]["value"], row["v"]["metadata"]).toJson() == '{"a":[1,2.50,null]}'


POISON = [
    Message(properties=Properties(correlation_id="\udcff")),
    Message(properties=Properties(headers={"h": "\udcff"})),
    Message(properties=Properties(headers={"\udcff": 1})),
    Message(routing_key="\udcff"),
]
ABOUT = "correlation_id string, headers map<string,string>, routing_key string"


@pytest.mark.parametrize("poison", POISON)
def test_what_is_about_a_message_may_be_unreadable_as_well(poison: Message) -> None:
    good = Message(properties=Properties(correlation_id="é", headers={"h": "1"}), routing_key="ü")
    messages = [good, poison, good]
    expected = {"correlation_id": "é", "headers": [("h", "1")], "routing_key": "ü"}
    with pytest.raises(AMQPSourceError, match=r"a message cannot be a row: column '.*' cannot be"):
        rows(ABOUT, messages)
    first, second, third = rows(ABOUT, messages, on_decode_error="null")
    assert first == third == expected and None in second.values()
    refused: list[tuple[Delivered, str]] = []
    found = rows(ABOUT, messages, refused, on_decode_error="dead-letter", dead_letter_exchange="dlx")
    assert found == [expected, expected] and len(refused) == 1
    with_body = "id int, _correlation_id string, _headers map<string,string>, _routing_key string"
    bodied = dataclasses.replace(poison, body=b'{"id": 1}')
    (row,) = rows(with_body, [bodied], format="json", on_decode_error="null")
    assert row["id"] == 1


@pytest.mark.parametrize("header", [2**62, -(2**63), 10**15])
def test_times_beyond_the_calendar(header: int) -> None:
    message = Message(properties=Properties(headers={"timestamp_in_ms": header}, timestamp=2**63))
    (row,) = rows("timestamp timestamp, ingest_timestamp timestamp", [message])
    assert row["timestamp"] is None
    assert abs(row["ingest_timestamp"] - datetime.datetime.now(UTC)) < datetime.timedelta(minutes=1)


def test_csv() -> None:
    text = "id int, name string, price decimal(10,2), day date"
    found = rows(text, [Message(b'1,"a, b",2.50,2024-02-29'), Message(b",,,")], format="csv")
    assert found[0] == {"id": 1, "name": "a, b", "price": Decimal("2.50"), "day": datetime.date(2024, 2, 29)}
    assert found[1] == {"id": None, "name": None, "price": None, "day": None}


@pytest.mark.parametrize("body", [b"1", b"1,2,3", b"1,2\n3,4", b"x,y", b"\xff,2", b""])
def test_csv_that_does_not_fit(body: bytes) -> None:
    with pytest.raises(AMQPSourceError, match="its body is not csv"):
        rows("a int, b int", [Message(body)], format="csv")


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}


def test_avro() -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, {"id": 7, "name": "seven"})
    good = stream.getvalue()
    options = {"format": "avro", "avro_schema": json.dumps(AVRO)}
    assert rows("id bigint, name string", [Message(good)], **options) == [{"id": 7, "name": "seven"}]
    for bad in (good[:-1], good + b"x", b""):
        with pytest.raises(AMQPSourceError, match="not Avro of that schema"):
            rows("id bigint, name string", [Message(bad)], **options)
    with pytest.raises(AMQPSourceError, match="'avroSchema' is not an Avro schema"):
        rows("id bigint", [Message(good)], format="avro", avro_schema="{}")


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("id int", {}, "there is no column 'id'; a message has queue, offset"),
        ("body string", {}, "column 'body' is binary; the schema asks for string"),
        ("offset int", {}, "column 'offset' is bigint; the schema asks for int"),
        ("_offset bigint", {"format": "json"}, "give the fields of the body with .schema"),
    ],
)
def test_a_schema_that_cannot_be(text: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AMQPSourceError, match=sentence):
        check_schema(schema(text), Options(**options))
