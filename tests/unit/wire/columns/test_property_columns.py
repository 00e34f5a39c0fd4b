"""Properties into columns: the twins agree with `Properties.decode`, message by message."""

from __future__ import annotations

import json
import random
from array import array
from decimal import Decimal
from typing import Any

import pytest

from embermq.errors import SyntaxFault
from embermq.wire.columns.property_columns import PropertyColumns
from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp

NUMBERS = ("delivery_mode", "priority", "timestamp")
NAMES = (
    "",
    "a",
    "b",
    "tenant",
    "x-stream-offset",
    "x-stream-timestamp",
    "timestamp_in_ms",
    "é",
    'quo"te',
    "\udcff",
)
TEXTS = (
    "",
    "x",
    "text",
    "é\U0001f600",
    'a "quote" and \\',
    "line\n\x01\x7f",
    "\udc80 is no UTF-8",
    "y" * 300,
)
VALUES: tuple[Any, ...] = (
    *TEXTS,
    *(0, 1, -1, 127, -128, 255, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)),
    *(
        True,
        False,
        None,
        1.5,
        Timestamp(0),
        Timestamp((1 << 63) + 1),
        Decimal("-1.50"),
        b"\x00\xff",
        [1, "x"],
    ),
    *({}, {"deep": [{"er": None}]}),
)
WANTED = (*Properties.__slots__, "headers_json", "taken_ms")


def text_of(value: Any) -> str | None:
    """What is text, number or nothing as the compiled twin has it; the rest in a way of this test."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, int) else f"<{value}>"


def json_of(value: Any) -> str:
    return json.dumps(value if not isinstance(value, dict) else typed(value), default=repr, sort_keys=True)


def typed(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"$timestamp": int(value)} if isinstance(value, Timestamp) else value
        for name, value in table.items()
    }


def random_properties(chance: random.Random) -> Properties:
    made = Properties()
    for name in Properties.__slots__:
        if chance.random() < 0.5:
            continue
        if name == "headers":
            names = chance.sample(NAMES, chance.randint(0, len(NAMES)))
            made.headers = {header: chance.choice(VALUES) for header in names}
        elif name in ("delivery_mode", "priority"):
            setattr(made, name, chance.choice((0, 1, 2, 255)))
        elif name == "timestamp":
            made.timestamp = Timestamp(
                chance.choice((0, 1_700_000_000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
            )
        else:
            setattr(made, name, chance.choice(TEXTS)[:255])
    return made


def buffers(rows: list[bytes]) -> tuple[bytes, bytes]:
    places = array("i", [0])
    for row in rows:
        places.append(places[-1] + len(row))
    return places.tobytes(), b"".join(rows)


def is_there(bits: Any, row: int) -> bool:
    return bits is None or bool(bits[row >> 3] >> (row & 7) & 1)


def texts(found: Any, count: int) -> list[str | None]:
    if found is None:
        return [None] * count
    bits, places, data = found
    ends = memoryview(bytes(places)).cast("i")
    assert len(ends) == count + 1
    return [
        bytes(data[ends[row] : ends[row + 1]]).decode("utf-8", "surrogateescape")
        if is_there(bits, row)
        else None
        for row in range(count)
    ]


def numbers(found: Any, count: int) -> list[int | None]:
    if found is None:
        return [None] * count
    bits, values = found
    return [value if is_there(bits, row) else None for row, value in enumerate(memoryview(values).cast("q"))]


def maps(found: Any, count: int) -> list[dict[str, str | None]]:
    ends = memoryview(found[0]).cast("i")
    assert len(ends) == count + 1
    keys, items = texts((None, *found[1:3]), ends[-1]), texts(found[3:], ends[-1])
    return [{str(keys[at]): items[at] for at in range(ends[row], ends[row + 1])} for row in range(count)]


def expected_taken(headers: dict[str, Any]) -> int | None:
    found = headers.get("x-stream-timestamp", headers.get("timestamp_in_ms"))
    return min(int(found), (1 << 63) - 1) if isinstance(found, int) else None


@pytest.mark.parametrize("seed", range(20))
def test_as_the_properties_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    columns = PropertyColumns(WANTED, text_of, json_of)
    for _ in range(3):  # one decoder takes batch after batch
        rows = [random_properties(chance) for _ in range(chance.choice((0, 1, 7, 8, 9, 300)))]
        start = chance.randint(0, len(rows))
        found = columns.decode(*buffers([row.encode() for row in rows]), start, len(rows))
        rows = rows[start:]
        own = [
            {
                name: value
                for name, value in (row.headers or {}).items()
                if name not in ("x-stream-offset", "x-stream-timestamp")
            }
            for row in rows
        ]
        for name in Properties.__slots__:
            given = [getattr(row, name) for row in rows]
            if name in NUMBERS:
                clamped = [None if value is None else min(value, (1 << 63) - 1) for value in given]
                assert numbers(found[name], len(rows)) == clamped
            elif name != "headers":
                assert texts(found[name], len(rows)) == given
        assert numbers(found["taken_ms"], len(rows)) == [expected_taken(row.headers or {}) for row in rows]
        expected = [{name: text_of(value) for name, value in table.items()} for table in own]
        assert maps(found["headers"], len(rows)) == expected
        assert texts(found["headers_json"], len(rows)) == [json_of(table) for table in own]


def test_what_no_message_has_is_none() -> None:
    columns = PropertyColumns(("type", "priority", "taken_ms"), text_of, json_of)
    row = Properties(content_type="text/plain").encode()
    found = columns.decode(*buffers([row, row]), 0, 2)
    assert found == {"type": None, "priority": None, "taken_ms": None}


def table_with(fields: bytes) -> bytes:
    return b"\x20\x00" + len(fields).to_bytes(4, "big") + fields


BROKEN = (
    b"",
    b"\x80",
    b"\x80\x00",
    b"\x80\x00\x05abc",
    b"\x00\x02",
    b"\x00\x01",
    b"\x00\x01\x80\x00",
    b"\x20\x00\x00\x00",
    b"\x20\x00\x00\x00\x00\x09",
    b"\x00\x40\x00\x00",
    table_with(b"\x01a"),
    table_with(b"\x05ab"),
    table_with(b"\x01aZ"),
    table_with(b"\x01aS\x00\x00\x00\x09x"),
    table_with(b"\x01aS\x00\x00"),
    table_with(b"\x01al\x00"),
    table_with(b"\x01aV\x01aV"),
    table_with(b"\x01aF\x00\x00\x00\x02\x01b"),
)


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_refused_and_the_next_batch_is_not_touched(broken: bytes) -> None:
    columns = PropertyColumns(WANTED, text_of, json_of)
    good = Properties(headers={"a": "b"}, type="x").encode()
    with pytest.raises(SyntaxFault):
        columns.decode(*buffers([good, broken]), 0, 2)
    found = columns.decode(*buffers([good]), 0, 1)
    assert texts(found["type"], 1) == ["x"]
    assert maps(found["headers"], 1) == [{"a": "b"}]
    assert texts(found["headers_json"], 1) == ['{"a": "b"}']


def test_no_byte_outside_the_buffers_is_read() -> None:
    columns = PropertyColumns(WANTED, text_of, json_of)
    places, data = buffers([Properties(type="x").encode()])
    for start, stop in ((0, 2), (-1, 1), (1, 0)):
        with pytest.raises((IndexError, SyntaxFault)):
            columns.decode(places, data, start, stop)
    with pytest.raises((IndexError, SyntaxFault)):
        columns.decode(places, data[:-1], 0, 1)


def test_all_letters_that_are_numbers() -> None:
    fields = {
        b"b": (b"\x80", -128),
        b"B": (b"\x80", 128),
        b"s": (b"\x80\x00", -32768),
        b"u": (b"\x80\x00", 32768),
        b"I": (b"\xff\xff\xff\xfe", -2),
        b"i": (b"\xff\xff\xff\xfe", 4294967294),
        b"l": (b"\x80" + bytes(7), -(1 << 63)),
        b"L": (b"\xff" * 8, -1),
        b"T": (b"\xff" * 8, (1 << 64) - 1),
    }
    table = b"".join(b"\x01" + letter + letter + value for letter, (value, _) in fields.items())
    found = PropertyColumns(("headers",), text_of, json_of).decode(*buffers([table_with(table)]), 0, 1)
    assert maps(found["headers"], 1) == [
        {letter.decode(): str(value) for letter, (_, value) in fields.items()}
    ]
