"""Rows to frames: the compiled and the interpreted twin say the same, byte by byte, and refuse the same."""

from __future__ import annotations

import importlib.util
from array import array
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import embermq.wire.columns.property_rows as installed_properties
import embermq.wire.columns.publish_rows as installed_rows
from embermq.wire.kernel import Output
from embermq.wire.methods import BasicPublish
from embermq.wire.properties import (
    FLAG_CONTENT_TYPE,
    FLAG_CORRELATION_ID,
    FLAG_DELIVERY_MODE,
    FLAG_TIMESTAMP,
    Properties,
)


def interpreted(module: ModuleType) -> ModuleType:
    name = module.__name__.rpartition(".")[2]
    spec = importlib.util.spec_from_file_location(
        f"interpreted_{name}", Path(module.__file__ or "").parent / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


ROWS = [installed_rows, interpreted(installed_rows)]
PROPERTIES = [installed_properties, interpreted(installed_properties)]
NAMES = ["installed", "interpreted"]
both = pytest.mark.parametrize("twin", ROWS, ids=NAMES)
both_makers = pytest.mark.parametrize("twin", PROPERTIES, ids=NAMES)


def buffers(values: list[bytes], before: bytes = b"") -> tuple[bytes, bytes]:
    """As Arrow has a slice of a column: the first place need not be 0."""
    places = array("i", [len(before), *(len(before) + end for end in accumulate(map(len, values)))])
    return places.tobytes(), before + b"".join(values)


def cells(values: list[bytes], twin: ModuleType = installed_rows) -> Any:
    return twin.Cells(*buffers(values, b"before"))


def values_of(encoded: tuple[bytearray, bytearray]) -> list[bytes]:
    column = installed_rows.Cells(*encoded)
    return [column.cell(row) for row in range(column.count)]


TEXTS = st.text(max_size=40)


@settings(deadline=None)
@both
@given(
    rows=st.lists(st.tuples(st.binary(max_size=300), TEXTS, TEXTS, TEXTS), max_size=12),
    columns=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    mandatory=st.booleans(),
    frame_max=st.integers(9, 400),
    bytes_max=st.integers(1, 2000),
)
def test_frames_as_they_would_be_one_by_one(
    twin: ModuleType,
    rows: list[tuple[bytes, str, str, str]],
    columns: tuple[bool, bool, bool],
    mandatory: bool,
    frame_max: int,
    bytes_max: int,
) -> None:
    exchanges, keys, ids = (
        [row[part] if columns[part - 1] else "same" for row in rows] for part in (1, 2, 3)
    )
    encoded = [Properties(delivery_mode=2, message_id=one).encode() for one in ids]
    same = b"same", b"same", Properties(delivery_mode=2, message_id="same").encode()
    given = [[one.encode() for one in exchanges], [one.encode() for one in keys], encoded]
    made = twin.Rows(
        cells([row[0] for row in rows], twin),
        *(cells(given[part], twin) if columns[part] else same[part] for part in range(3)),
        mandatory,
    )
    expected, found = Output(), b""
    for (body, *_), exchange, key, properties in zip(rows, exchanges, keys, encoded, strict=True):
        method = BasicPublish(exchange, key, mandatory).encode()
        expected.put_publish(7, method, properties, body, frame_max)
    row = 0
    while row < made.count:
        out = Output()
        before, row = row, made.put(out, 7, row, frame_max, bytes_max)
        assert row > before
        found += out.take()
    assert found == expected.take()
    for row, (body, *_) in enumerate(rows):
        assert made.body(row) == body and made.properties(row) == encoded[row]
        assert made.method(row) == BasicPublish(exchanges[row], keys[row], mandatory).encode()


@both
def test_columns_that_do_not_fit_are_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="one more than values, not 0 bytes"):
        twin.Cells(b"", b"")
    with pytest.raises(ValueError, match="one more than values, not 5 bytes"):
        twin.Cells(bytes(5), b"")
    with pytest.raises(ValueError, match="outside their 3 bytes"):
        twin.Cells(array("i", [0, 4]).tobytes(), b"abc")
    with pytest.raises(ValueError, match="outside their 3 bytes"):
        twin.Cells(array("i", [-1, 2]).tobytes(), b"abc")
    with pytest.raises(ValueError, match="ends at 1, before it begins at 2"):
        twin.Cells(array("i", [0, 2, 1]).tobytes(), b"abc")
    bodies, plain = cells([b"x", b"y"], twin), b"\0\0"
    with pytest.raises(ValueError, match="columns of 2 and of 1 rows"):
        twin.Rows(bodies, b"", cells([b"k"], twin), plain, False)
    with pytest.raises(ValueError, match="short string of 256 bytes, 255 is the most"):
        twin.Rows(bodies, b"", cells([b"k", b"k" * 256], twin), plain, False)
    with pytest.raises(ValueError, match="short string of 300 bytes"):
        twin.Rows(bodies, b"e" * 300, b"", plain, False)
    with pytest.raises(ValueError, match="properties as bytes must be"):
        twin.Rows(bodies, b"", b"", cells([plain, b"\0"], twin), False)
    rows = twin.Rows(bodies, b"", b"", plain, False)
    for row in (-1, 2):
        with pytest.raises(IndexError):
            rows.body(row)
    with pytest.raises(IndexError):
        rows.put(Output(), 1, 3, 4096, 100)
    with pytest.raises(IndexError):
        rows.put(Output(), 1, 0, 8, 100)
    assert rows.put(Output(), 1, 2, 4096, 100) == 2


OPTIONAL = st.none() | TEXTS
ROW = st.fixed_dictionaries(
    {
        "correlation_id": OPTIONAL,
        "delivery_mode": st.none() | st.integers(0, 255),
        "timestamp": st.none() | st.integers(0, 2**62),
        "headers": st.none() | st.dictionaries(TEXTS, OPTIONAL, max_size=4),
        "id": OPTIONAL,
    }
)


def marks(values: list[Any]) -> bytes | None:
    return bytes(value is not None for value in values) if None in values else None


def numbers(values: list[int | None]) -> bytes:
    return array("q", [value or 0 for value in values]).tobytes()


def texts(values: list[str | None]) -> Any:
    return cells([(value or "").encode() for value in values])


@settings(deadline=None)
@both_makers
@given(rows=st.lists(ROW, max_size=8), prefix=st.none() | TEXTS, first=st.integers(0, 2**60))
def test_properties_as_they_would_be_one_by_one(
    twin: ModuleType, rows: list[dict[str, Any]], prefix: str | None, first: int
) -> None:
    column = {name: [row[name] for row in rows] for name in ("correlation_id", "delivery_mode", "timestamp")}
    entries = [list((row["headers"] or {}).items()) for row in rows]
    flat = [entry for row in entries for entry in row]
    headers = twin.RowHeaders()
    headers.add_map(
        array("i", [0, *accumulate(map(len, entries))]).tobytes(),
        texts([name for name, _ in flat]),
        texts([value for _, value in flat]),
        marks([value for _, value in flat]),
        marks([row["headers"] for row in rows]),
    )
    ids = [row["id"] for row in rows]
    headers.add_id(b"x-id", None if prefix is None else prefix.encode(), first, texts(ids), marks(ids))
    made = twin.PropertyRows(len(rows))
    made.add_same(FLAG_CONTENT_TYPE, b"\x04text")
    made.add_headers(headers)
    made.add_numbers(FLAG_DELIVERY_MODE, numbers(column["delivery_mode"]), 1, marks(column["delivery_mode"]))
    made.add_texts(FLAG_CORRELATION_ID, texts(column["correlation_id"]), marks(column["correlation_id"]))
    made.add_numbers(FLAG_TIMESTAMP, numbers(column["timestamp"]), 8, marks(column["timestamp"]))
    expected = []
    for number, row in enumerate(rows):
        identity = row["id"] if row["id"] is not None or prefix is None else f"{prefix}{first + number}"
        fields = dict(row["headers"] or {})
        if identity is not None:
            fields.pop("x-id", None)
            fields["x-id"] = identity
        plain = {name: values[number] for name, values in column.items()}
        expected.append(Properties(content_type="text", headers=fields or None, **plain).encode())
    assert values_of(made.encode()) == expected


@both_makers
def test_values_that_no_property_can_have(twin: ModuleType) -> None:
    for value, text in ((256, "int too big to convert"), (-1, "can't convert negative int to unsigned")):
        made = twin.PropertyRows(1)
        made.add_numbers(FLAG_DELIVERY_MODE, numbers([value]), 1, None)
        with pytest.raises(OverflowError, match=text):
            made.encode()
    long = "x" * 256
    made = twin.PropertyRows(1)
    made.add_texts(FLAG_CORRELATION_ID, texts([long]), None)
    with pytest.raises(ValueError, match="short string of 256 bytes"):
        made.encode()
    headers = twin.RowHeaders()
    headers.add_map(array("i", [0, 1]).tobytes(), texts([long]), texts(["v"]), None, None)
    made = twin.PropertyRows(1)
    made.add_headers(headers)
    with pytest.raises(ValueError, match="short string of 256 bytes"):
        made.encode()


@both_makers
def test_property_columns_that_do_not_fit_are_refused(twin: ModuleType) -> None:
    made = twin.PropertyRows(2)
    with pytest.raises(ValueError, match="texts of 1 rows, not 2"):
        made.add_texts(FLAG_CORRELATION_ID, texts(["x"]), None)
    with pytest.raises(ValueError, match="numbers of 1 rows, not 2"):
        made.add_numbers(FLAG_TIMESTAMP, numbers([1]), 8, None)
    with pytest.raises(ValueError, match="1 rows of 2 are marked"):
        made.add_texts(FLAG_CORRELATION_ID, texts(["x", "y"]), b"\1")
    headers = twin.RowHeaders()
    with pytest.raises(ValueError, match="outside its keys and items"):
        headers.add_map(array("i", [0, 2]).tobytes(), texts(["k"]), texts(["v"]), None, None)
    headers = twin.RowHeaders()
    headers.add_map(array("i", [0, 1]).tobytes(), texts(["k"]), texts(["v"]), None, None)
    with pytest.raises(ValueError, match="headers of 1 rows, not 2"):
        made.add_headers(headers)
    headers = twin.RowHeaders()
    headers.add_id(b"x-id", None, 0, texts(["one"]), None)
    with pytest.raises(ValueError, match="ids of 1 rows, not 2"):
        made.add_headers(headers)
