"""Columns to messages: what a batch gives as columns is what it gives row by row."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from embermq.client.core.columns import rows_of
from embermq.wire.methods import BasicPublish
from embermq.wire.properties import Properties
from pyspark_embermq.options import Options
from pyspark_embermq.sink.message_columns import MessageColumns, goes_as_columns
from pyspark_embermq.sink.row_writer import Sender

MOMENT = datetime.datetime(2024, 1, 1, 12, 0, 0, 999_999, datetime.UTC)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "body": (pa.binary(), [b"one", None, b"", b"four"]),
    "routing_key": (pa.string(), ["a", None, "", "ü"]),
    "exchange": (pa.string(), [None, "shop", "", None]),
    "content_type": (pa.string(), ["text/plain", None, "", "x"]),
    "content_encoding": (pa.string(), ["gzip", "gzip", "br", "br"]),
    "delivery_mode": (pa.int32(), [1, None, 2, 1]),
    "priority": (pa.int64(), [None, 9, 0, None]),
    "correlation_id": (pa.large_string(), ["c", None, None, "d"]),
    "expiration": (pa.string(), [None] * 4),
    "message_id": (pa.string(), ["m1", "m2", "m3", "m4"]),
    "timestamp": (pa.timestamp("us", "UTC"), [MOMENT, None, MOMENT, None]),
    "headers": (
        pa.map_(pa.string(), pa.string()),
        [[("n", "1"), ("é", None)], None, [], [("x-deduplication-id", "theirs")]],
    ),
    "deduplication_id": (pa.string(), ["mine", None, None, "yours"]),
    "offset": (pa.int64(), [1, 2, 3, 4]),
}


def batch_of(*names: str) -> pa.RecordBatch:
    arrays = [pa.array(COLUMNS[name][1], COLUMNS[name][0]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def as_rows(batch: pa.RecordBatch, options: Options, prefix: str, first: int) -> list[tuple[Any, ...]]:
    sender = Sender(options, prefix)
    sender.row = first
    found = []
    for message in sender.messages(batch):
        body = message.body.encode() if isinstance(message.body, str) else message.body
        assert isinstance(message.properties, Properties)
        method = BasicPublish(message.exchange or "", message.routing_key or "", options.mandatory).encode()
        found.append((method, comparable(message.properties.encode()), body))
    return found


def as_columns(batch: pa.RecordBatch, options: Options, prefix: str, first: int) -> list[tuple[Any, ...]]:
    assert goes_as_columns(batch.schema)
    columns = MessageColumns(batch, options, Sender(options, prefix).fixed, prefix, first)
    rows = rows_of(
        columns.bodies(),
        columns.address("routing_key", options.routing_key),
        columns.address("exchange", options.exchange),
        columns.properties(),
        options.mandatory,
    )
    return [(rows.method(row), comparable(rows.properties(row)), rows.body(row)) for row in range(rows.count)]


def comparable(raw: bytes) -> Properties:
    return Properties.decode(raw, 0, len(raw))


@pytest.mark.parametrize("prefix", ["", "run/7"])
@pytest.mark.parametrize(
    "names",
    [
        ("body",),
        ("body", "routing_key"),
        ("body", "exchange", "offset"),
        ("body", "headers"),
        ("body", "deduplication_id"),
        ("body", "timestamp", "priority"),
        tuple(COLUMNS),
    ],
    ids=" ".join,
)
def test_the_same_messages(names: tuple[str, ...], prefix: str) -> None:
    everywhere = Options(routing_key="default", exchange="everywhere", content_type="application/x")
    for options in (everywhere, Options(content_type="application/x")):
        for batch in (batch_of(*names), batch_of(*names).slice(1, 2), batch_of(*names).slice(2, 0)):
            assert as_columns(batch, options, prefix, 99) == as_rows(batch, options, prefix, 99)


def test_bodies_as_text() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["é", None])], names=["body"])
    options = Options(routing_key="q", format="text")
    assert as_columns(batch, options, "", 0) == as_rows(batch, options, "", 0)


@pytest.mark.parametrize(
    ("name", "kind", "value", "error"),
    [
        ("message_id", pa.string(), "x" * 300, ValueError),
        ("priority", pa.int32(), 256, OverflowError),
        ("priority", pa.int32(), -1, OverflowError),
        ("headers", pa.map_(pa.string(), pa.string()), [("k" * 300, "v")], ValueError),
    ],
)
def test_the_same_mistakes(name: str, kind: pa.DataType, value: Any, error: type[Exception]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"]), pa.array([value], kind)], names=["body", name])
    with pytest.raises(error) as by_row:
        as_rows(batch, Options(), "", 0)
    with pytest.raises(error) as by_column:
        as_columns(batch, Options(), "", 0)
    assert str(by_row.value) == str(by_column.value)


def test_what_goes_row_by_row() -> None:
    typed = pa.schema([("body", pa.binary()), ("headers", pa.map_(pa.string(), pa.int32()))])
    assert not goes_as_columns(typed)
    assert not goes_as_columns(pa.schema([("body", pa.binary()), ("headers_json", pa.string())]))
