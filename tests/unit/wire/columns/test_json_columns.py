"""Plain JSON into columns: whatever the scanner takes, Python's own parser reads in the same way."""

from __future__ import annotations

import datetime
import json
import random
from array import array
from typing import Any

import pytest

from embermq.wire.columns import json_columns
from embermq.wire.columns.json_columns import JsonColumns

IS_COMPILED = not json_columns.__file__.endswith(".py")

FIELDS = [
    ("b", "int8"),
    ("i", "int32"),
    ("l", "int64"),
    ("d", "double"),
    ("o", "bool"),
    ("s", "string"),
    ("y", "date"),
    ("t", "timestamp"),
    ("n", "local"),
    ("x", "other"),
    ("é", "string"),
]
LITERALS = [
    *("0", "-0", "1", "-1", "127", "128", "-128", "-129", "2147483647", "-2147483648", "2147483648"),
    *(
        "9" * 18,
        "-" + "9" * 18,
        "9" * 19,
        "1.5",
        "-0.0",
        "0.1",
        "99.95",
        "1e2",
        "1E-7",
        "1e400",
        "123456789.123456789",
    ),
    *(
        "9007199254740993",
        "0.1234567890123456789",
        "179769313486231570000",
        "01",
        "1.",
        ".5",
        "-",
        "+1",
        "1e",
        "0x1",
    ),
    *(
        "true",
        "false",
        "null",
        "tru",
        "nul",
        "NaN",
        "Infinity",
        "[]",
        "{}",
        "[1, [2, {}]]",
        '{"i": [null]}',
        "[1,]",
        "[1 2]",
    ),
    *(
        '""',
        '"x"',
        '"é\U0001f600"',
        '"a\\nb"',
        '"\\u00e9"',
        '"\\ud800"',
        '"\\x"',
        '"tab\t"',
        '"open',
        '"2026-11-18"',
    ),
    *(
        '"2024-02-29"',
        '"2023-02-29"',
        '"2026-11-18T13:14:15Z"',
        '"2026-11-18 13:14:15.5"',
        '"2026-11-18T13:14:15+01:30"',
    ),
    *(
        '"2026-11-18T13:14:15.123456-18:00"',
        '"2026-11-18T24:00:00"',
        '"0001-01-01T00:00:00"',
        '"9999-12-31T23:59:59.999999"',
    ),
    *(
        '"2026-11-18T13:14:15.1234567"',
        '"2026-11-18T13:14:15+18:01"',
        '"2026-11-18T13:14"',
        '"2026-13-01"',
        '"2026-00-10"',
    ),
]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def random_body(chance: random.Random) -> bytes:
    space = chance.choice(["", "", " ", "\n\t "])
    names = chance.choices([name for name, _ in FIELDS] + ["other", "ii", ""], k=chance.randint(0, 5))
    body = (
        "{"
        + f"{space},{space}".join(f'"{name}"{space}:{space}{chance.choice(LITERALS)}' for name in names)
        + "}"
    )
    found = bytearray((space + body + space).encode())
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        place = chance.randrange(len(found) + 1)
        found[place : place + chance.randint(0, 1)] = bytes(
            [chance.choice(b'{}[]",:\\ 0e.-\x00\x80\xc3\xff')]
        )
    return bytes(found)


def expected(value: Any, kind: str) -> Any:
    """What a column has; the scanner has taken it, so it is of the kind."""
    if value is None:
        return None
    if kind == "date":
        return (datetime.date.fromisoformat(value) - EPOCH.date()).days
    if kind in ("timestamp", "local"):
        moment = datetime.datetime.fromisoformat(value)
        assert kind == "timestamp" or moment.tzinfo is None
        since = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - EPOCH
        return since // datetime.timedelta(microseconds=1)
    assert kind != "other"
    return repr(float(value)) if kind == "double" else value


def value_at(column: Any, kind: str, row: int) -> Any:
    if column is None or not (column[0] is None or column[0][row >> 3] >> (row & 7) & 1):
        return None
    if kind == "string":
        places = memoryview(bytes(column[1])).cast("i")
        return bytes(column[2][places[row] : places[row + 1]]).decode()
    if kind == "double":
        return repr(memoryview(column[1]).cast("d")[row])
    return memoryview(column[1]).cast("q")[row]


def decoded(columns: JsonColumns, bodies: list[bytes], start: int = 0) -> tuple[Any, list[int]]:
    places = array("i", [0])
    for body in bodies:
        places.append(places[-1] + len(body))
    return columns.decode(places.tobytes(), b"".join(bodies), start, len(bodies))


def refuse(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_taken_is_what_python_reads(seed: int) -> None:
    chance = random.Random(seed)
    columns = JsonColumns(FIELDS)
    for _ in range(3):  # one scanner takes batch after batch
        bodies = [random_body(chance) for _ in range(1000)]
        made, left = decoded(columns, bodies)
        for row in sorted(set(range(len(bodies))).difference(left)):
            read = json.loads(bodies[row].decode(), parse_constant=refuse)  # of valid UTF-8
            assert type(read) is dict
            for (name, kind), column in zip(FIELDS, made, strict=True):
                assert value_at(column, kind, row) == expected(read.get(name), kind), bodies[row]
    assert len(left) < len(bodies) or not IS_COMPILED


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, all bodies are left")
def test_common_bodies_are_taken() -> None:
    bodies = [
        b'{"i":12345,"s":"customer","d":99.95,"o":true,"y":"2026-11-18","t":"2026-11-18T13:14:15.123456Z"}',
        b' { "i" : null , "unknown" : { "deep" : [ 1 , "x\\n" , { } ] } , "d" : -1e-7 , "l" : -9 } ',
        '{"é":"ü", "n": "2026-11-18 13:14:15", "b": -128}'.encode(),
        b"{}",
    ]
    made, left = decoded(JsonColumns(FIELDS), [b"{}", *bodies], 1)
    assert left == []
    assert value_at(made[3], "double", 1) == repr(-1e-7)
    assert value_at(made[0], "int8", 2) == -128


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted, all bodies are left")
@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"{",
            b"null",
            b"[]",
            b'{"i": 1',
            b'{"i": 1}x',
            b'{"i": 1},{"i": 2}',
            b'{"i": 1, "i": 2}',
            b'{"i": 01}',
        ),
        *(
            b'{"i": 1.5}',
            b'{"i": "1"}',
            b'{"b": 128}',
            b'{"o": 1}',
            b'{"s": 1}',
            b'{"x": 1}',
            b'{"s": "\xff"}',
        ),
        *(
            b'{"a": NaN}',
            b"\xef\xbb\xbf{}",
            b'{"s": "\\n"}',
            b'{"\\u0069": 1}',
            b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
        ),
        *(
            b'{"y": "2023-02-29"}',
            b'{"n": "2026-11-18T13:14:15Z"}',
            b'{"a": "\x00"}',
            b'{"a": "\\u12"}',
            b'{"i": 1,}',
        ),
    ],
)
def test_everything_else_is_left(body: bytes) -> None:
    assert decoded(JsonColumns(FIELDS), [b"{}", body, b"{}"])[1] == [1]


def test_no_byte_outside_the_buffers_is_read() -> None:
    if IS_COMPILED:
        for start, stop in ((0, 2), (-1, 1), (1, 0)):
            with pytest.raises(IndexError):
                JsonColumns(FIELDS).decode(array("i", [0, 2]).tobytes(), b"{}", start, stop)
        with pytest.raises(IndexError):
            JsonColumns(FIELDS).decode(array("i", [0, 3]).tobytes(), b"{}", 0, 1)
