"""Columns of bytes and numbers, and deliveries: the compiled and the interpreted twin say the same."""

from __future__ import annotations

import importlib.util
from array import array
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embermq.wire.columns.column as installed
from embermq.wire.frame import content_frames, content_header, method_frame
from embermq.wire.methods import BasicAck, BasicDeliver


def interpreted() -> ModuleType:
    path = Path(installed.__file__).parent / "column.py"
    spec = importlib.util.spec_from_file_location("interpreted_column", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWINS = [installed, interpreted()]
FIELD = b"\x05valuel"

both = pytest.mark.parametrize("twin", TWINS, ids=["installed", "interpreted"])


def values(taken: tuple[bytearray, bytearray]) -> list[bytes]:
    places, data = array("i", bytes(taken[0])), bytes(taken[1])
    assert places[0] == 0 and places[-1] == len(data)
    return [data[start:stop] for start, stop in pairwise(places)]


def fill(column: installed.ByteColumn, parts: list[list[bytes]]) -> None:
    for pieces in parts:
        for piece in pieces:
            column.append(bytearray(b"<" + piece + b">"), 1, 1 + len(piece))
        column.end()


@both
@given(
    parts=st.lists(st.lists(st.binary(max_size=3000), max_size=3), max_size=20),
    data=st.data(),
)
def test_values_come_out_as_they_went_in(
    twin: ModuleType, parts: list[list[bytes]], data: st.DataObject
) -> None:
    expected = [b"".join(pieces) for pieces in parts]
    first = data.draw(st.integers(0, len(parts)))
    column = twin.ByteColumn()
    fill(column, parts)
    column.append(bytearray(b"half"), 0, 4)  # is on its way
    assert column.count == len(parts)
    assert values(column.take(first)) == expected[:first]
    assert column.count == len(parts) - first
    column.append(bytearray(b" and half"), 0, 9)
    column.end()
    assert values(column.take(column.count)) == [*expected[first:], b"half and half"]
    assert values(column.take(0)) == []


@both
def test_buffers_in_use_are_left_alone(twin: ModuleType) -> None:
    """Also when others, which nobody looks at any more, are used again."""
    column = twin.ByteColumn()
    kept = []
    for number in range(20):
        text = b"%d" % (number % 10) * 100_000
        fill(column, [[text]])
        taken = column.take(1)
        if number % 3 == 0:
            kept.append((text, memoryview(taken[1])))
        assert taken[1] == text
        del taken
    assert all(view == text for text, view in kept)


@both
def test_forgetting(twin: ModuleType) -> None:
    column = twin.ByteColumn()
    fill(column, [[b"one"], [b"two"], [b"three"]])
    column.append(bytearray(b"never whole"), 0, 11)
    column.forget_after(3)
    column.forget_after(1)
    fill(column, [[b"four"]])
    assert values(column.take(2)) == [b"one", b"four"]


@both
@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=1200), data=st.data())
def test_numbers(twin: ModuleType, numbers: list[int], data: st.DataObject) -> None:
    column = twin.NumberColumn()
    for number in numbers:
        column.append(number)
    first = data.draw(st.integers(0, len(numbers)))
    last = data.draw(st.integers(first, len(numbers)))
    assert array("q", bytes(column.take(first))).tolist() == numbers[:first]
    column.forget_after(last - first)
    assert column.count == last - first
    assert array("q", bytes(column.take(last - first))).tolist() == numbers[first:last]


@both
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FIELD + b"\0\0\1\0\0\0\0\2", 2**40 + 2),
        (b"\5\5\5" + FIELD + bytes(7) + b"\x09\5rest", 9),
        (FIELD + bytes(7), -1),  # cut off
        (FIELD + bytes(8) + FIELD + bytes(8), -1),  # twice
        (b"", -1),
        (b"\5value", -1),
    ],
)
def test_the_value_of_a_field(twin: ModuleType, text: bytes, found: int) -> None:
    buf = bytearray(b"!" + text + FIELD)  # what stands behind the end does not count
    assert twin.field_value(buf, 1, 1 + len(text), FIELD) == found


@both
def test_ranges_are_checked(twin: ModuleType) -> None:
    column, numbers = twin.ByteColumn(), twin.NumberColumn()
    for start, stop in [(-1, 2), (2, 1), (0, 4)]:
        with pytest.raises(IndexError):
            column.append(bytearray(b"abc"), start, stop)
        with pytest.raises(IndexError):
            twin.field_value(bytearray(b"abc"), start, stop, FIELD)
    for count in (-1, 1):
        for call in (column.take, column.forget_after, numbers.take, numbers.forget_after):
            with pytest.raises(IndexError):
                call(count)


def delivery(body: bytes, *, channel: int = 3, consumer: str = "tag", frame_max: int = 4096) -> bytes:
    method = method_frame(channel, BasicDeliver(consumer, 77, True, "exchange", "key"))
    return method + content_frames(channel, content_header(len(body), b"\x10\x00\x02"), body, frame_max)


@both
@pytest.mark.parametrize("body", [b"", b"body"], ids=["empty", "not empty"])
def test_the_parts_of_a_delivery(twin: ModuleType, body: bytes) -> None:
    data = bytearray(b"before" + delivery(body) + b"behind")
    stop = len(data) - len(b"behind")
    found = twin.Delivery()
    assert found.find(data, 6, len(data), 3, b"\x03tag") == stop
    assert (found.tag, found.redelivered) == (77, True)
    assert data[found.names_at : found.names_stop] == b"\x08exchange\x03key"
    assert data[found.properties_at : found.properties_stop] == b"\x10\x00\x02"
    assert data[found.body_at : found.body_stop] == body
    for end in range(6, stop):  # never more than is there
        assert found.find(data, 6, end, 3, b"\x03tag") == 0
    with pytest.raises(IndexError):
        found.find(data, 0, len(data) + 1, 3, b"\x03tag")
    with pytest.raises(IndexError):
        found.find(data, -1, len(data), 3, b"\x03tag")


@both
@pytest.mark.parametrize(
    "data",
    [
        delivery(b"body", channel=4),
        delivery(b"body", consumer="other"),
        delivery(b"body", consumer="ta"),
        delivery(b"two frames", frame_max=13),
        method_frame(3, BasicAck(1)) * 3,
        delivery(b"body").replace(b"\xce", b"\xcd", 1),
        delivery(b"body").replace(b"\x00\x3c\x00\x00", b"\x00\x3d\x00\x00", 1),
        delivery(b"body")[:-13] + b"\x03\x00\x03\x00\x00\x00\x05bodyy\xce",
        delivery(b"body")[:-13] + b"\x08\x00\x03\x00\x00\x00\x04body\xce",
        b"\x01\x00\x03\x00\x00\x00\x0e\x00\x3c\x00\x3c\x03tag123456\xce" + delivery(b"body"),
    ],
)
def test_what_is_no_whole_delivery_to_this_consumer(twin: ModuleType, data: bytes) -> None:
    data += bytes(100)
    assert twin.Delivery().find(bytearray(data), 0, len(data), 3, b"\x03tag") == 0
