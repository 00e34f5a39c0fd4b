"""Formats of bodies, there and back: Avro with a registry, Protobuf, MessagePack, CloudEvents."""

from __future__ import annotations

import base64
import datetime
import http.server
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from embermq.client import Channel, Outgoing, Properties
from embermq.testing import EmbeddedBroker
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats import protobuf, schema_registry
from pyspark_embermq.formats.avro import avro_schema_of
from pyspark_embermq.formats.cloudevents import NoEvent, event_of
from pyspark_embermq.options import Options
from pyspark_embermq.sink.row_writer import check_columns, prepared, with_body
from tests.spark.conftest import declare_stream
from tests.spark.test_rows import Message, rows

NOON = datetime.datetime(2026, 11, 18, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
SCHEMA = (
    "id int, name string, tags array<string>, sizes map<string,bigint>, at timestamp, inner struct<x:double>"
)
ROW: dict[str, Any] = {
    "id": 7,
    "name": "seven",
    "tags": ["a", "b"],
    "sizes": {"s": 1},
    "at": NOON,
    "inner": {"x": 0.5},
}


def bodies(ddl: str, made: list[dict[str, Any]], **options: Any) -> tuple[pa.RecordBatch, Options]:
    """The messages of rows."""
    schema = StructType.fromDDL(ddl)
    found = Options(routing_key="q", **options)
    check_columns(schema, found)
    found = prepared(schema, found)
    arrow = to_arrow_schema(schema, timezone="UTC")
    return with_body(pa.RecordBatch.from_pylist(made, arrow), found), found


def there_and_back(ddl: str, made: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    batch, found = bodies(ddl, made, **options)
    messages = [Message(body) for body in batch.column("body").to_pylist()]
    kept = {"avro_schema": found.avro_schema} if found.format == "avro" and not found.schema_registry else {}
    found_rows: list[dict[str, Any]] = rows(ddl, messages, **{**options, **kept})
    for row in found_rows:
        if row.get("sizes") is not None:
            row["sizes"] = dict(row["sizes"])  # pairs, in Arrow
    return found_rows


@pytest.fixture(autouse=True)
def types_can_be_written_as_text(spark: SparkSession) -> None:
    """`fromDDL` asks Spark's own parser."""


# -- Avro and registries


class Registry(http.server.BaseHTTPRequestHandler):
    """Of Confluent's API what a client needs; schemas by id."""

    schemas: list[str] = []
    logins: set[str | None] = set()

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/schemas/ids/"))
        self.logins.add(self.headers["Authorization"])
        if number > len(self.schemas):
            self.answer(404, {"error_code": 40403, "message": "Schema not found"})
        else:
            self.answer(200, {"schema": self.schemas[number - 1]})

    def do_POST(self) -> None:
        assert self.path == "/subjects/orders%2Fvalue/versions"
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.answer(200, {"id": self.schemas.index(schema) + 1})

    def answer(self, status: int, found: dict[str, Any]) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.schemas.clear()
    Registry.logins.clear()
    schema_registry.schema_text.cache_clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://me:secret@127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_avro_by_the_schema_of_the_rows() -> None:
    assert there_and_back(SCHEMA, [ROW, {}], format="avro") == [ROW, dict.fromkeys(ROW)]
    more = "b boolean, l bigint, f float, raw binary, day date, cost decimal(10,2), deep array<struct<y:int>>"
    row = {
        "b": True,
        "l": 2**40,
        "f": 0.5,
        "raw": b"\0\xff",
        "day": datetime.date(2026, 1, 2),
        "cost": Decimal("12.50"),
        "deep": [{"y": 1}, None],
    }
    assert there_and_back(more, [row], format="avro") == [row]
    with pytest.raises(AMQPSourceError, match="keys of a map are strings"):
        avro_schema_of(pa.schema([("m", pa.map_(pa.int32(), pa.string()))]))


def test_avro_with_a_registry_over_http(registry: str) -> None:
    options = {"format": "avro", "schema_registry": registry, "schema_subject": "orders/value"}
    batch, found = bodies(SCHEMA, [ROW], **options)
    assert batch.column("body")[0].as_py()[:5] == b"\0\0\0\0\1" and found.schema_id == 1
    assert there_and_back(SCHEMA, [ROW], **options) == [ROW]
    assert len(Registry.schemas) == 1  # the same schema has the same id
    assert Registry.logins == {"Basic " + base64.b64encode(b"me:secret").decode()}
    # Written by another program with a schema of its own; read with fewer fields.
    theirs = {"type": "record", "name": "o", "fields": [{"name": "id", "type": "int"}]}
    Registry.schemas.append(json.dumps(theirs))
    sink = pa.BufferOutputStream()
    fastavro.schemaless_writer(sink, theirs, {"id": 5})
    framed = schema_registry.framed(2, sink.getvalue().to_pybytes())
    assert rows("id int, name string", [Message(framed)], **options) == [{"id": 5, "name": None}]


def test_a_registry_that_fails_is_not_the_message_s_fault(registry: str) -> None:
    unknown = Message(schema_registry.framed(9, b""))
    with pytest.raises(AMQPSourceError, match="answers 404 to /schemas/ids/9"):
        rows("id int", [unknown], format="avro", schema_registry=registry, on_decode_error="null")
    with pytest.raises(AMQPSourceError, match="schemaSubject"):
        bodies("id int", [], format="avro", schema_registry=registry)
    with pytest.raises(AMQPSourceError, match="cannot be asked"):
        rows("id int", [unknown], format="avro", schema_registry="http://127.0.0.1:1/")
    with pytest.raises(AMQPSourceError) as refusal:
        schema_registry.schema_text(registry, 9)
    assert "secret" not in str(refusal.value)


def test_avro_with_a_directory_of_schemas(tmp_path: Path) -> None:
    options = {"format": "avro", "schema_registry": str(tmp_path / "schemas")}
    assert there_and_back(SCHEMA, [ROW], **options) == [ROW]
    assert there_and_back("id int", [{"id": 1}], **options) == [{"id": 1}]
    assert there_and_back(SCHEMA, [ROW], **options) == [ROW]
    assert sorted(path.name for path in (tmp_path / "schemas").iterdir()) == ["1.avsc", "2.avsc"]
    (row,) = rows("id int", [Message(b"{}")], **options, on_decode_error="null")
    assert row == {"id": None}
    with pytest.raises(AMQPSourceError, match="does not begin with a zero"):
        rows("id int", [Message(b"{}")], **options)
    with pytest.raises(AMQPSourceError, match=r"schema 7: .*7.avsc"):
        rows("id int", [Message(schema_registry.framed(7, b""))], **options)


def test_rows_that_do_not_fit_an_avro_schema() -> None:
    given = json.dumps({"type": "record", "name": "o", "fields": [{"name": "id", "type": "int"}]})
    assert there_and_back("id int", [{"id": 1}], format="avro", avro_schema=given) == [{"id": 1}]
    with pytest.raises(AMQPSourceError, match="a row is not of the Avro schema"):
        bodies("id int", [{"id": None}], format="avro", avro_schema=given)
    with pytest.raises(AMQPSourceError, match="the writer's schema in option 'avroSchema', or a registry"):
        rows("id int", [], format="avro")


# -- Protobuf


def field(
    number: int, name: str, kind: Any, type_name: str = "", repeated: bool = False, optional: bool = False
) -> descriptor_pb2.FieldDescriptorProto:
    label = 3 if repeated else 1
    made = descriptor_pb2.FieldDescriptorProto(name=name, number=number, type=kind, label=label)
    if type_name:
        made.type_name = type_name
    if optional:
        made.proto3_optional, made.oneof_index = True, 0
    return made


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As protoc would write it of

    message Inner { double x = 1; }
    enum Colour { RED = 0; BLUE = 1; }
    message Order {
      int32 id = 1; optional string name = 2; repeated string tags = 3; map<string, int64> sizes = 4;
      google.protobuf.Timestamp at = 5; Inner inner = 6; Colour colour = 7; google.protobuf.Int64Value n = 8;
      repeated Inner inners = 9;
    }
    """
    proto = descriptor_pb2.FieldDescriptorProto
    entry = descriptor_pb2.DescriptorProto(
        name="SizesEntry",
        field=[field(1, "key", proto.TYPE_STRING), field(2, "value", proto.TYPE_INT64)],
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    order = descriptor_pb2.DescriptorProto(
        name="Order",
        nested_type=[entry],
        oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_name")],
        field=[
            field(1, "id", proto.TYPE_INT32),
            field(2, "name", proto.TYPE_STRING, optional=True),
            field(3, "tags", proto.TYPE_STRING, repeated=True),
            field(4, "sizes", proto.TYPE_MESSAGE, ".shop.Order.SizesEntry", repeated=True),
            field(5, "at", proto.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field(6, "inner", proto.TYPE_MESSAGE, ".shop.Inner"),
            field(7, "colour", proto.TYPE_ENUM, ".shop.Colour"),
            field(8, "n", proto.TYPE_MESSAGE, ".google.protobuf.Int64Value"),
            field(9, "inners", proto.TYPE_MESSAGE, ".shop.Inner", repeated=True),
        ],
    )
    inner = descriptor_pb2.DescriptorProto(name="Inner", field=[field(1, "x", proto.TYPE_DOUBLE)])
    colour = descriptor_pb2.EnumDescriptorProto(
        name="Colour",
        value=[
            descriptor_pb2.EnumValueDescriptorProto(name="RED", number=0),
            descriptor_pb2.EnumValueDescriptorProto(name="BLUE", number=1),
        ],
    )
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
        message_type=[order, inner],
        enum_type=[colour],
    )
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.add().CopyFrom(shop)
    path = tmp_path_factory.mktemp("protobuf") / "shop.desc"
    path.write_bytes(files.SerializeToString())
    return str(path)


ORDER = SCHEMA + ", colour string, n bigint, inners array<struct<x:double>>"


def test_protobuf_by_a_descriptor_set(descriptor: str) -> None:
    options = {"format": "protobuf", "protobuf_descriptor": descriptor, "protobuf_message": "shop.Order"}
    row = {**ROW, "colour": "BLUE", "n": 5, "inners": [{"x": 1.0}, {"x": 2.0}]}
    nothing = {"id": 0, "name": None, "tags": [], "sizes": {}, "at": None, "inner": None}
    nothing |= {"colour": "RED", "n": None, "inners": []}
    assert there_and_back(ORDER, [row, {}], **options) == [row, nothing]
    assert there_and_back("colour int", [{"colour": 1}], **options) == [{"colour": 1}]
    (message,) = bodies("id int, colour string", [{"id": 3, "colour": "BLUE"}], **options)[0].column("body")
    assert message.as_py() == b"\x08\x03\x38\x01"
    assert rows("id int, lost int", [Message(b"\x08\x03")], **options) == [{"id": 3, "lost": None}]
    with pytest.raises(AMQPSourceError, match=r"not a shop\.Order"):
        rows("id int", [Message(b"\xff")], **options)
    # Framed as with a registry: the schema's id, the first type of the file.
    framed = schema_registry.framed(9, b"\0\x08\x03")
    assert rows("id int", [Message(framed)], **options, schema_registry="/nowhere") == [{"id": 3}]


def test_wrong_protobuf(descriptor: str, tmp_path: Path) -> None:
    options = {"format": "protobuf", "protobuf_descriptor": descriptor, "protobuf_message": "shop.Order"}
    for change, problem in (
        ({"protobuf_message": "shop.No"}, r"the descriptor set lacks \(it has .*shop.Order"),
        ({"protobuf_descriptor": str(tmp_path / "no")}, "No such file"),
        ({"protobuf_descriptor": "base64:AAAA"}, "no descriptor set"),
    ):
        with pytest.raises(AMQPSourceError, match=problem):
            protobuf.message_class(Options(**{**options, **change}))
    with pytest.raises(AMQPSourceError, match="has no field 'colours'; it has id, name"):
        bodies("colours string", [], **options)
    with pytest.raises(AMQPSourceError, match="'GREEN' is no Colour"):
        bodies("colour string", [{"colour": "GREEN"}], **options)
    with pytest.raises(AMQPSourceError, match=r"a row is no shop\.Order"):
        bodies("id bigint", [{"id": 2**40}], **options)


# -- MessagePack


def test_msgpack() -> None:
    assert there_and_back(SCHEMA, [ROW, {}], format="msgpack") == [ROW, dict.fromkeys(ROW)]
    body = msgspec.msgpack.encode({"id": 1, "name": 5, "other": None})
    (row,) = rows("id int, name string", [Message(body)], format="msgpack", on_decode_error="null")
    assert row == {"id": 1, "name": None}
    for wrong, problem in ((b"\xc1", "not MessagePack"), (msgspec.msgpack.encode([1]), "it is no record")):
        with pytest.raises(AMQPSourceError, match=problem):
            rows("id int", [Message(wrong)], format="msgpack")


# -- CloudEvents

EVENT = (
    "id string, source string, type string, subject string, time timestamp, datacontenttype string, "
    "data string"
)


def event(**more: Any) -> dict[str, Any]:
    return {"id": "1", "source": "/shop", "type": "order.placed", **more}


def test_events_in_binary_mode() -> None:
    made = event(time=NOON, datacontenttype="application/json", data='{"a":1}')
    batch, _ = bodies(EVENT, [made], format="cloudevents")
    (row,) = batch.to_pylist(maps_as_pydicts="lossy")
    assert (row["body"], row["content_type"]) == (b'{"a":1}', "application/json")
    assert row["headers"] == {
        "cloudEvents:id": "1",
        "cloudEvents:source": "/shop",
        "cloudEvents:specversion": "1.0",
        "cloudEvents:type": "order.placed",
        "cloudEvents:time": "2026-11-18T12:00:00.250Z",
    }
    properties = Properties(content_type="application/json", headers=row["headers"])
    found = event_of(row["body"], properties)
    assert {name: value for name, value in found.items() if value} == {
        **made,
        "data": b'{"a":1}',
        "specversion": "1.0",
    }


@pytest.mark.parametrize(
    ("more", "field_and_value"),
    [
        ({"data": '{"a":1}'}, ("data", {"a": 1})),
        ({"data": "text", "datacontenttype": "text/plain"}, ("data", "text")),
        ({}, ("data", None)),
    ],
)
def test_events_in_structured_mode(more: dict[str, Any], field_and_value: tuple[str, Any]) -> None:
    batch, _ = bodies(EVENT, [event(**more)], format="cloudevents", cloud_events_mode="structured")
    (row,) = batch.to_pylist()
    name, value = field_and_value
    assert json.loads(row["body"]).get(name) == value
    found = event_of(row["body"].encode(), Properties(content_type=row["content_type"]))
    assert found["data"] == (more["data"].encode() if more else None) and found["id"] == "1"


def test_events_of_bytes_and_extensions() -> None:
    ddl = "id string, source string, type string, datacontenttype string, data binary"
    ddl += ", extensions map<string,string>"
    made = event(data=b"\0\xff", datacontenttype="image/png", extensions={"tenant": "7"})
    batch, _ = bodies(ddl, [made], format="cloudevents", cloud_events_mode="structured")
    (row,) = batch.to_pylist()
    assert json.loads(row["body"])["data_base64"] == "AP8=" and json.loads(row["body"])["tenant"] == "7"
    found = event_of(row["body"].encode(), Properties(content_type="application/cloudevents+json"))
    assert (found["data"], found["extensions"]) == (b"\0\xff", {"tenant": "7"})
    theirs = {"cloudEvents_id": "1", "cloudEvents_source": "s", "cloudEvents_type": "t"}
    theirs |= {"cloudEvents_specversion": "1.0", "cloudEvents_n": 5, "other": "x"}
    assert event_of(b"", Properties(headers=theirs))["extensions"] == {"n": "5"}


@pytest.mark.parametrize(
    ("body", "properties", "problem"),
    [
        (b"{}", Properties(), "it has no headers cloudEvents:"),
        (b"{", Properties(content_type="application/cloudevents+json"), "not JSON"),
        (b"[]", Properties(content_type="application/cloudevents+json"), "no JSON object"),
        (b'{"id": "1"}', Properties(content_type="application/cloudevents+json"), "no attribute 'source'"),
    ],
)
def test_messages_that_are_no_events(body: bytes, properties: Properties, problem: str) -> None:
    with pytest.raises(NoEvent, match=problem):
        event_of(body, properties)


@pytest.mark.parametrize(
    ("ddl", "made", "problem"),
    [
        ("id string", {}, "an event needs a column 'source'"),
        ("id string, source string, type string, n int", {}, "put it into the map 'extensions'"),
        ("id int, source string, type string", {}, "column 'id' is int; expected string"),
        ("id string, source string, type string", event(id=None), "its 'id' is empty"),
    ],
)
def test_rows_that_are_no_events(ddl: str, made: dict[str, Any], problem: str) -> None:
    with pytest.raises(AMQPSourceError, match=problem):
        bodies(ddl, [made] if made else [], format="cloudevents")


# -- and all of it with Spark


def test_formats_through_spark(
    spark: SparkSession, channel: Channel, url: str, broker: EmbeddedBroker, descriptor: str, tmp_path: Path
) -> None:
    formats: dict[str, dict[str, str]] = {
        "avro": {"schemaRegistry": str(tmp_path / "schemas")},
        "protobuf": {"protobufDescriptor": descriptor, "protobufMessage": "shop.Order"},
        "msgpack": {},
    }
    fields = "id int, name string, tags array<string>"
    frame = spark.createDataFrame([(1, "one", ["a"]), (2, "two", [])], fields)
    for name, options in formats.items():
        declare_stream(channel, name, [])
        sink = frame.write.format("amqp").mode("append").option("url", url).options(**options)
        sink.option("format", name).option("routingKey", name).save()
        reader = spark.read.format("amqp").option("url", url).option("queue", name).options(**options)
        found = reader.option("format", name).schema(f"{fields}, _content_type string")
        kind = f"application/{name}"
        expected = [(1, "one", ["a"], kind), (2, "two", [], kind)]
        assert sorted(tuple(row) for row in found.load().collect()) == expected


def test_events_through_spark(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "events", [])
    frame = spark.sql(
        "select 'e1' as id, '/shop' as source, 'placed' as type, '{\"a\":1}' as data, "
        "'events' as _routing_key"
    )
    for mode in ("binary", "structured"):
        sink = frame.write.format("amqp").mode("append").option("url", url).option("format", "cloudevents")
        sink.option("cloudEventsMode", mode).save()
    channel.publish_batch([Outgoing(b"?", "events")])
    reader = spark.read.format("amqp").option("url", url).option("queue", "events")
    reader = reader.option("format", "cloudevents")
    events = reader.option("onDecodeError", "null").load()
    found = events.select("id", "source", "type", "data", "specversion")
    assert [tuple(row) for row in found.collect()] == [
        ("e1", "/shop", "placed", bytearray(b'{"a":1}'), "1.0"),
        ("e1", "/shop", "placed", bytearray(b'{"a":1}'), "1.0"),
        (None, None, None, None, None),
    ]
