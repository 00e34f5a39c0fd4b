"""JSON and CSV bodies give the rows that Spark's from_json and from_csv give, rows the JSON of to_json."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from pyspark_embermq.decoding.rows import RowMaker, check_schema
from pyspark_embermq.encoding.json_bodies import json_bodies
from pyspark_embermq.options import Options
from tests.spark.test_rows import Message, arrived, schema

SCHEMA = (
    "i int, l bigint, b tinyint, d double, f float, s string, o boolean, m decimal(10,2), x binary, "
    "t timestamp, n timestamp_ntz, y date, a array<int>, g array<array<string>>, "
    "r struct<p: int, q: string, w: array<struct<z: int>>>, k map<string,double>"
)
NAMES = list("ilbdfsomxtnyarkg")
SCALARS = [
    *("0", "1", "-7", "127", "-128", "256", "32768", "2147483647", "2147483648", "-4294967296123"),
    *("9223372036854775808", "123456789012345678901234567890", "1.5", "-0.0", "1.0", "1e2", "1E-7", "1e400"),
    *("0.00001", "12345678.25", "99999999.994", "99999999.995", "1.005", "-2.675", "1704164645", "1e30"),
    *("true", "false", "null", "NaN", "Infinity", "-Infinity", "[]", "{}", "[1]", "[1,null,2]", "[[1]]"),
    *('[["x",1.5,null],[]]', '["a",{"b":[1.50,"é"]}]', '{"p":1,"q":"x"}', '{"p":"1","q":2.5,"w":[{"z":1}]}'),
    *('{"w":[{"z":"x"},{"z":2}]}', '{"w":[1]}', '{"u":1.5,"v":null}', '{"u":"x"}', '{"u":"NaN"}'),
]
TEXTS = [
    *(
        "",
        " ",
        "x",
        "true",
        "1",
        "1.5",
        " 1",
        "1,234.5",
        "1e2",
        "NaN",
        "Infinity",
        "-INF",
        "+INF",
        "INF",
        "-1",
    ),
    *(
        "é",
        "\U0001f600",
        'quote " and \\',
        "line\nbreak\x01",
        "aGVsbG8=",
        "aGVsbG8",
        "aGVs bG8=",
        "_-8=",
        "!!",
    ),
    *(
        "2024",
        "2024-02",
        "2024-2-3",
        "2024-02-29",
        "2023-02-29",
        "2024-13-01",
        "2024-01-02T",
        "20240102",
        "99999",
    ),
    *(
        "2024-01-02T03:04:05Z",
        "2024-01-02 03:04:05",
        "2024-01-02T03:04:05.123456789+01:00",
        "2024-01-02T03:04",
    ),
    *(
        "2024-01-02T3:4:5",
        "2024-01-02T03:04:05.",
        "2024-01-02T03:04:05 Europe/Berlin",
        "2024-01-02T03:04:05+1",
    ),
    *("2024-01-02T03:04:05UTC+1", "2024-01-02T03:04:05+0100", "2024-01-02T03:04:05z", "2024-01-02T03:04Z"),
    *(
        "2024-01-02T24:00:00",
        "2024-01-02T03:04:60",
        "2024-01-02Z",
        "  2024-01-02  ",
        "+2024-01-02",
        "2024-01-02 x",
    ),
    *(
        "2024-01-02T03:04:05+19:00",
        "2024-01-02T03:04:05,5",
        "2024-01-02T03:04:05 Nowhere/Land",
        "1969-12-31 23:59:59.5",
    ),
]
BROKEN = [
    *(
        b"nonsense",
        b"null",
        b"[]",
        b'[{"i": 1}]',
        b"1",
        b'"x"',
        b'{"i": 1',
        b'{"i": 1,}',
        b'{"i": 01}',
        b'{"i": .5}',
    ),
    *(
        b'{"i": 1, "b": tru}',
        b'\xef\xbb\xbf{"i": 1}',
        b'{"i": 1, "q": "\x01"}',
        b'{"i": 1,',
        b'"i": 2}',
        b"{i: 1}",
    ),
    *(
        b'{"s": "\\ud800x"}',
        b'{"s": "\\ud83d\\ude00"}',
        b'{"i": 1, "i": 2}',
        b'{"i": 1, "i": null}',
        b'{"I": 3}',
        b"{}",
    ),
    *(b' \n{"i": 1}\r\n', b'{"i": "\\x"}', b'{"r": {"p": 1, "q": null}, "unknown": {"deep": [1, {}]}}'),
]


def random_bodies(chance: random.Random, count: int) -> list[bytes]:
    literals = SCALARS + [json.dumps(text, ensure_ascii=chance.random() < 0.5) for text in TEXTS]
    found = []
    for _ in range(count):
        # Base64 that ends too early takes the other fields with it in Spark, and not here.
        names = chance.sample([name for name in NAMES if name != "x"], chance.randint(1, 4))
        fields = (f'"{name}": {chance.choice(literals)}' for name in names)
        found.append(("{" + ",".join(fields) + "}").encode())
    every = [f'{{"{name}": {literal}}}'.encode() for name in NAMES for literal in literals]
    return found + every + BROKEN


def as_spark(spark: SparkSession, bodies: list[bytes], schema: str, function: Any) -> list[Any]:
    """What Spark itself makes of bodies."""
    frame = spark.createDataFrame(pa.table({"body": pa.array([body.decode() for body in bodies])}))
    options = {"columnNameOfCorruptRecord": "_corrupt_record"}
    read = function("body", f"{schema}, _corrupt_record string", options)
    return comparable(frame.select(read.alias("row")).select("row.*").toArrow())


def as_ours(bodies: list[bytes], text: str, format: str) -> list[Any]:
    fields, options = (
        schema(f"{text}, _corrupt_record string"),
        Options(format=format, on_decode_error="null"),
    )
    check_schema(fields, options)
    maker = RowMaker(fields, options)
    return comparable(maker.batch(arrived([Message(body) for body in bodies], maker.wanted), "orders"))


def comparable(table: Any) -> list[Any]:
    """Rows as text, so that NaN equals itself; times as numbers, because Python's calendar is short."""
    columns = {}
    for name in table.schema.names:
        column, kind = table.column(name), table.schema.field(name).type
        if pa.types.is_temporal(kind):
            column = column.cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
        columns[name] = [
            repr(dict(value) if name == "k" and value else value) for value in column.to_pylist()
        ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def differences(bodies: list[bytes], ours: list[Any], theirs: list[Any]) -> list[Any]:
    return [
        (body, name, mine[name], his[name])
        for body, mine, his in zip(bodies, ours, theirs, strict=True)
        for name in his
        if mine[name] != his[name]
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_json_as_from_json(spark: SparkSession, seed: int) -> None:
    bodies = random_bodies(random.Random(seed), 1000)
    for text in (SCHEMA, SCHEMA.replace("m decimal(10,2), ", "")):  # numbers are read in two ways
        theirs = as_spark(spark, bodies, text, sql.from_json)
        assert differences(bodies, as_ours(bodies, text, "json"), theirs) == []


CSV_SCHEMA = "i int, s string, d double, o boolean, m decimal(10,2), y date, t timestamp, x binary"
CSV_TEXTS = [text for text in TEXTS if not set(text) & set('"\\,\n')]


@pytest.mark.parametrize("seed", [1, 2])
def test_csv_as_from_csv(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    texts = [
        *CSV_TEXTS,
        *(text for text in SCALARS if not set(text) & set('"\\,')),
        '"a,b"',
        '""',
        "1d",
        " 2 ",
        "+1",
        "TRUE",
    ]
    lines = [",".join(chance.choices(texts, k=chance.choice([8] * 20 + [7, 9, 1]))) for _ in range(1000)]
    bodies = [line.encode() for line in lines if line]
    theirs = as_spark(spark, bodies, CSV_SCHEMA, sql.from_csv)
    assert differences(bodies, as_ours(bodies, CSV_SCHEMA, "csv"), theirs) == []


ROWS = """
SELECT * FROM VALUES
  (1, 1.5D, float(0.1), 'quote " and é\U0001f600', true, 1.50BD, X'00ff',
   timestamp'2026-01-02 03:04:05.123999', timestamp_ntz'1969-12-31 23:59:59.9999', date'2026-01-02',
   array(1, null), named_struct('p', 1, 'q', null), map('a', 1.5D, 'b', double('NaN')),
   array(map(1, named_struct('z', date'2024-02-29'))), parse_json('{"v":[1,2.5]}')),
  (-128, double('NaN'), float('-inf'), 'line\nbreak', false, -0.01BD, X'',
   timestamp'1969-12-31 23:59:59.0001', timestamp_ntz'0001-01-01 00:00:00', date'0001-01-01',
   array(), named_struct('p', null, 'q', 'x'), map(), array(), parse_json('null')),
  (0, 1e-7D, float(16777216), '', null, 0BD, null, null, null, null, null, null, null, array(null),
   parse_json('1')),
  (null, 1e10D, float(1e-10), null, true, 99999999.99BD, X'7f', timestamp'9999-12-31 23:59:59.999999',
   null, null, array(2147483647), null, map('', null), null, parse_json('"x"')),
  (null, null, null, null, null, null, null, null, null, null, null, null, null, null, parse_json('2'))
AS t(i, d, f, s, o, m, x, t, n, y, a, r, k, g, v)
"""


def test_json_as_to_json(spark: SparkSession) -> None:
    frame = spark.sql(ROWS)
    theirs = [json.loads(row.text) for row in frame.selectExpr("to_json(struct(*)) AS text").collect()]
    (batch,) = frame.toArrow().combine_chunks().to_batches()
    for part, expected in ((batch, theirs), (batch.slice(1, 3), theirs[1:4])):
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        assert [json.loads(text) for text in json_bodies(columns, part.num_rows).to_pylist()] == expected


PLAIN_ROWS = """
SELECT * FROM VALUES
  (null, 'plain é', 99.95D, true, date'2026-11-18', timestamp'2026-11-18 13:14:15.123999'),
  (7, null, -3D, false, date'0001-01-01', timestamp'1969-12-31 23:59:59.9999'),
  (-8, '', 0.001D, null, null, null),
  (null, null, null, null, null, null)
AS t(i, s, d, o, y, t)
"""


def test_plain_columns_as_to_json(spark: SparkSession) -> None:
    """What Arrow writes as a whole: a row of nulls, and one whose first field is null, among them."""
    frame = spark.sql(PLAIN_ROWS)
    theirs = [row.text for row in frame.selectExpr("to_json(struct(*)) AS text").collect()]
    (batch,) = frame.toArrow().combine_chunks().to_batches()
    for part, expected in ((batch, theirs), (batch.slice(1, 2), theirs[1:3]), (batch.slice(4), [])):
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        assert json_bodies(columns, part.num_rows).to_pylist() == expected
