"""Blocks of a stream taken apart: both twins say the same, and it is what ordinary deliveries would say."""

from __future__ import annotations

import importlib.util
import struct
from array import array
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import embermq.wire.columns.block as installed
from embermq.errors import SyntaxFault
from embermq.wire.columns.column import ByteColumn, Delivery, NumberColumn
from embermq.wire.delivery_headers import OFFSET_FIELD, TIME_FIELD
from embermq.wire.frame import content_header
from embermq.wire.kernel import Output
from embermq.wire.primitive import encode_shortstr
from embermq.wire.properties import Properties


def interpreted() -> ModuleType:
    path = Path(installed.__file__).with_name("block.py")
    spec = importlib.util.spec_from_file_location("interpreted_block", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWINS: list[Any] = [installed, interpreted()]
both = pytest.mark.parametrize("twin", TWINS, ids=["installed", "interpreted"])
PREFIX = b"\x00\x3c\x00\x3c\x03tag"


class Stored(NamedTuple):
    offset: int
    time_ms: int
    names: bytes
    header: bytes
    body: bytes

    def record(self) -> bytes:
        payload = struct.pack("<IB", len(self.header), 4) + self.names + self.header + self.body
        return struct.pack("<IIQQB", 0x12345678, len(payload), self.offset, self.time_ms, 1) + payload


names = st.text(max_size=20)
properties = st.builds(
    Properties,
    content_type=st.none() | names,
    content_encoding=st.none() | names,
    headers=st.none() | st.dictionaries(names, st.integers(0, 9) | names, max_size=3),
    delivery_mode=st.none() | st.integers(1, 2),
    message_id=st.none() | names,
)


@st.composite
def stored_messages(draw: st.DrawFn) -> list[Stored]:
    offset = draw(st.integers(0, 2**40))
    made = []
    for _ in range(draw(st.integers(0, 8))):
        body = draw(st.binary(max_size=80) | st.integers(0, 6000).map(lambda size: b"b" * size))
        shorts = encode_shortstr(draw(names)) + encode_shortstr(draw(names))
        header = content_header(len(body), draw(properties).encode())
        made.append(Stored(offset, draw(st.integers(0, 2**45)), shorts, header, body))
        offset += draw(st.integers(1, 3))
    return made


class Rows:
    """All columns, and what fills them."""

    def __init__(self, twin: Any, timed: bool = False) -> None:
        self.texts = [ByteColumn() for _ in range(4)]  # bodies, exchanges, routing keys, properties
        self.numbers = [NumberColumn() for _ in range(2)]  # offsets, redelivered
        self.unpacker = twin.BlockRows(*self.texts, *self.numbers, timed)

    def content(self) -> list[list[Any]]:
        found: list[list[Any]] = []
        for column in self.texts:
            places, data = column.take(column.count)
            found.append([bytes(data[start:stop]) for start, stop in pairwise(array("i", bytes(places)))])
        for numbers in self.numbers:
            found.append(array("q", bytes(numbers.take(numbers.count))).tolist())
        return found


def delivered(message: Stored, timed: bool) -> list[Any]:
    """The row that an ordinary delivery gives."""
    out = Output()
    block = message.names + message.header + message.body
    field = OFFSET_FIELD
    if timed:
        field = TIME_FIELD + message.time_ms.to_bytes(8, "big") + OFFSET_FIELD
    size, header_size = len(message.names), len(message.header)
    out.put_stored_delivery(
        PREFIX, 1, 1, block, 0, size, len(block), header_size, field, message.offset, 1 << 20
    )
    frames = bytearray(out.take())
    found = Delivery()
    assert found.find(frames, 0, len(frames), 1, b"\x03tag") == len(frames)
    key_at = found.names_at + 1 + frames[found.names_at]
    return [
        bytes(frames[found.body_at : found.body_stop]),
        bytes(frames[found.names_at + 1 : key_at]),
        bytes(frames[key_at + 1 : found.names_stop]),
        bytes(frames[found.properties_at : found.properties_stop]),
        message.offset,
        0,
    ]


@both
@settings(deadline=None)
@given(messages=stored_messages(), timed=st.booleans(), data=st.data())
def test_rows_are_those_of_ordinary_deliveries(
    twin: Any, messages: list[Stored], timed: bool, data: st.DataObject
) -> None:
    block = b"".join(message.record() for message in messages)
    cut = data.draw(st.integers(0, len(block)))
    rows = Rows(twin, timed)
    buf = bytearray(b"before" + block[:cut])
    done = rows.unpacker.unpack(buf, 6, len(buf))
    rest = buf[done:] + block[cut:]
    assert rows.unpacker.unpack(rest, 0, len(rest)) == len(rest)
    assert rows.unpacker.count == len(messages)
    expected = [delivered(message, timed) for message in messages]
    assert rows.content() == [[row[column] for row in expected] for column in range(6)]


def outcome(twin: Any, block: bytearray) -> tuple[object, object]:
    """Where the twin stopped, or what it said, and the rows that it has made."""
    rows = Rows(twin)
    try:
        result: object = rows.unpacker.unpack(block, 0, len(block))
    except SyntaxFault as fault:
        return str(fault), rows.unpacker.count
    return result, rows.content()


@settings(deadline=None)
@given(messages=stored_messages(), data=st.data())
def test_twins_see_the_same_damage(messages: list[Stored], data: st.DataObject) -> None:
    block = bytearray(b"".join(message.record() for message in messages))
    for _ in range(data.draw(st.integers(0, 3))):
        if block:
            block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    del block[data.draw(st.integers(0, len(block))) :]
    assert outcome(TWINS[0], block) == outcome(TWINS[1], block)


def record(offset: int = 5, body: bytes = b"body") -> bytearray:
    header = content_header(len(body), Properties(headers={"a": 1}).encode())
    return bytearray(Stored(offset, 9, b"\x01e\x01k", header, body).record())


@both
@pytest.mark.parametrize(
    ("place", "value"),
    [(25, 13), (25, 200), (30, 200), (32, 250), (45, 7), (15, 255), (49, 9)],
    ids=["header too small", "header too large", "exchange", "key", "body size", "offset", "headers"],
)
def test_a_damaged_record_is_told_of(twin: Any, place: int, value: int) -> None:
    block = record()
    block[place] = value
    rows = Rows(twin)
    with pytest.raises(SyntaxFault, match="a block of a stream is damaged at its record 1"):
        rows.unpacker.unpack(record(4) + block, 0, len(record()) + len(block))


@both
def test_offsets_rise_within_a_block(twin: Any) -> None:
    rows = Rows(twin)
    same = record() + record()
    with pytest.raises(SyntaxFault, match="record 1"):
        rows.unpacker.unpack(same, 0, len(same))
    rows.unpacker.begin()
    assert rows.unpacker.unpack(record(), 0, len(record())) == len(record())


@both
def test_only_what_is_wanted(twin: Any) -> None:
    bodies, offsets = ByteColumn(), NumberColumn()
    some = twin.BlockRows(bodies, None, None, None, offsets, None, False)
    assert some.unpack(record(), 0, len(record())) == len(record())
    assert bytes(bodies.take(1)[1]) == b"body"
    nothing = twin.BlockRows(None, None, None, None, None, None, False)
    assert nothing.unpack(record(), 0, len(record())) == len(record()) and nothing.count == 1
    with pytest.raises(IndexError):
        nothing.unpack(record(), 0, len(record()) + 1)
