"""Rows as JSON objects, column by column, as Spark's own to_json writes them.

A field that is null is left out, NaN and Infinity are texts, bytes are base64, days and times are ISO 8601
with milliseconds. Times are in UTC, because a sink in Python is not told the time zone of the session.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_embermq.decoding.casting import is_variant

Texts = list[str | None]  # of each row; None: null
ESCAPED = r'[\x00-\x1f"\\]'  # what stands for something else in a text of JSON
PLAIN_MIN, PLAIN_MAX = 1e-3, 1e7  # numbers that are written without an exponent, by whatever writes them


def json_bodies(columns: dict[str, pa.Array], count: int) -> pa.Array:
    """An object for each of so many rows."""
    if not columns:
        return pa.repeat(pa.scalar("{}"), count)
    fields = [
        pc.binary_join_element_wise(f",{encode_basestring(name)}:", text_column(column), "").fill_null("")
        for name, column in columns.items()
    ]
    joined = pc.binary_join_element_wise(*fields, "")
    # Without the first comma.
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def objects(fields: list[tuple[str, Texts]], count: int) -> list[str]:
    if not fields:
        return ["{}"] * count
    keys = [key for key, _ in fields]
    return [
        "{" + ",".join([key + text for key, text in zip(keys, row, strict=True) if text is not None]) + "}"
        for row in zip(*(texts for _, texts in fields), strict=True)
    ]


def can_be_json(kind: pa.DataType) -> bool:
    """Whether there is a form for this type, and for those inside it."""
    if is_variant(kind):
        return True
    if pa.types.is_nested(kind):
        return all(can_be_json(kind.field(index).type) for index in range(kind.num_fields))
    return writer_of(kind) is not None


def text_column(column: pa.Array) -> pa.Array:
    """The values as JSON: by Arrow where it writes what Spark does, else one by one."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_date(kind):
        return in_quotes(column.cast(pa.string()))
    if pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(column, ESCAPED)).as_py():
        return in_quotes(column)
    if pa.types.is_float64(kind) and are_plain(column):
        texts = column.cast(pa.string())
        whole = pc.equal(column, pc.trunc(column))
        return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if pa.types.is_timestamp(kind):
        return timestamp_column(column)
    return pa.array(texts_of(column), pa.string())


def in_quotes(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def are_plain(numbers: pa.Array) -> bool:
    """Are all of a size that is written without an exponent? Not NaN, which is of none; not minus zero."""
    size = pc.abs(numbers)
    plain = pc.and_(pc.greater_equal(size, PLAIN_MIN), pc.less(size, PLAIN_MAX))
    return pc.all(plain).as_py() is not False


def texts_of(column: pa.Array) -> Texts:
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    if is_variant(kind):
        return variants(column)
    if pa.types.is_struct(kind):
        return structs(column)
    if pa.types.is_map(kind):
        return maps(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return lists(column)
    write = writer_of(kind)
    assert write is not None, "the driver has checked that"
    return write(column)


# -- plain values


def as_written(column: pa.Array) -> Texts:
    found: Texts = column.cast(pa.string()).to_pylist()
    return found


def strings(column: pa.Array) -> Texts:
    return [None if text is None else encode_basestring(text) for text in column.to_pylist()]


def doubles(column: pa.Array) -> Texts:
    return [None if number is None else number_text(number, repr(number)) for number in column.to_pylist()]


def floats(column: pa.Array) -> Texts:
    """With as many digits as tell one of 32 bits from its neighbours."""
    texts = column.cast(pa.string()).to_pylist()
    return [
        None if number is None else number_text(number, text)
        for number, text in zip(column.to_pylist(), texts, strict=True)
    ]


def number_text(number: float, text: str) -> str:
    if math.isfinite(number):
        return text if "." in text or "e" in text else text + ".0"
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def decimals(column: pa.Array) -> Texts:
    return [None if number is None else format(number, "f") for number in column.to_pylist()]


def binaries(column: pa.Array) -> Texts:
    return [None if data is None else f'"{base64.b64encode(data).decode()}"' for data in column.to_pylist()]


def dates(column: pa.Array) -> Texts:
    return [None if text is None else f'"{text}"' for text in column.cast(pa.string()).to_pylist()]


def timestamps(column: pa.Array) -> Texts:
    found: Texts = timestamp_column(column).to_pylist()
    return found


def timestamp_column(column: pa.Array) -> pa.Array:
    zone = "" if column.type.tz is None else "Z"
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    local = pc.floor_temporal(micros.cast(pa.timestamp("us")), unit="millisecond").cast(pa.timestamp("ms"))
    texts = pc.replace_substring(local.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.binary_join_element_wise('"', texts, f'{zone}"', "")


Write = Callable[[pa.Array], Texts]
WRITERS: tuple[tuple[Callable[[pa.DataType], Any], Write], ...] = (
    (pa.types.is_boolean, as_written),
    (pa.types.is_integer, as_written),
    (pa.types.is_float32, floats),
    (pa.types.is_float64, doubles),
    (pa.types.is_string, strings),
    (pa.types.is_large_string, strings),
    (pa.types.is_binary, binaries),
    (pa.types.is_large_binary, binaries),
    (pa.types.is_decimal, decimals),
    (pa.types.is_date, dates),
    (pa.types.is_timestamp, timestamps),
    (pa.types.is_null, as_written),
)


def writer_of(kind: pa.DataType) -> Write | None:
    return next((write for is_kind, write in WRITERS if is_kind(kind)), None)


# -- values with values inside


def variants(column: pa.Array) -> Texts:
    from pyspark.sql.types import VariantVal

    return [
        None if found is None else VariantVal(found["value"], found["metadata"]).toJson()
        for found in column.to_pylist()
    ]


def structs(column: pa.StructArray) -> Texts:
    fields = [
        (encode_basestring(field.name) + ":", texts_of(part))
        for field, part in zip(column.type, column.flatten(), strict=True)
    ]
    here = column.is_valid().to_pylist()
    return [text if valid else None for text, valid in zip(objects(fields, len(column)), here, strict=True)]


def lists(column: pa.ListArray) -> Texts:
    items = [text if text is not None else "null" for text in texts_of(column.values)]
    return [None if part is None else "[" + ",".join(items[part]) + "]" for part in slices(column)]


def maps(column: pa.MapArray) -> Texts:
    keys = [quoted(text or "null") for text in texts_of(column.keys)]
    items = [text if text is not None else "null" for text in texts_of(column.items)]
    entries = [f"{key}:{item}" for key, item in zip(keys, items, strict=True)]
    return [None if part is None else "{" + ",".join(entries[part]) + "}" for part in slices(column)]


def quoted(text: str) -> str:
    """A name in JSON is a text, whatever its type was."""
    return text if text.startswith('"') else encode_basestring(text)


def slices(column: pa.Array) -> list[slice | None]:
    """Which of the values each row has."""
    places = column.offsets.to_pylist()
    here = column.is_valid().to_pylist()
    return [slice(places[row], places[row + 1]) if valid else None for row, valid in enumerate(here)]
