"""JSON bodies as columns: those that are plain by compiled code, the others one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from embermq.client.core.columns import Values
from embermq.wire.columns.json_columns import JsonColumns
from pyspark_embermq.decoding.received_columns import Arrivals, arrow_buffers

Columns = tuple[list[pa.Array], dict[int, str]]  # and problems, by the number of the row


def kind_of(kind: pa.DataType) -> str:
    """What the compiled scanner calls a type."""
    if pa.types.is_signed_integer(kind):
        return f"int{kind.bit_width}"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "local"
    for is_kind, name in (
        (pa.types.is_string, "string"),
        (pa.types.is_floating, "double"),
        (pa.types.is_boolean, "bool"),
        (pa.types.is_date32, "date"),
    ):
        if is_kind(kind):
            return name
    return "other"


class PlainJson:
    """Gives the bodies that are not plain to `decode_others`, which must give the same columns."""

    def __init__(self, schema: pa.Schema, decode_others: Callable[[Sequence[bytes]], Columns]) -> None:
        self.kinds = [field.type for field in schema]
        self.scanner = JsonColumns([(field.name, kind_of(field.type)) for field in schema])
        self.decode_others = decode_others

    def decode(self, arrived: Arrivals) -> Columns:
        bodies: Values | None = arrived.batch.body
        assert bodies is not None, "a column that nobody asked for"
        made, left = self.scanner.decode(bodies.places, bodies.data, arrived.start, arrived.stop)
        if len(left) == len(arrived):
            return self.decode_others(arrived.body.to_pylist())
        columns = [array_of(found, kind, len(arrived)) for found, kind in zip(made, self.kinds, strict=True)]
        if not left:
            return columns, {}
        others, problems = self.decode_others(arrived.body.take(pa.array(left, pa.int64())).to_pylist())
        order = list(range(len(arrived)))
        for number, row in enumerate(left):
            order[row] = len(arrived) + number
        rows = pa.array(order, pa.int64())
        return (
            [pa.concat_arrays(pair).take(rows) for pair in zip(columns, others, strict=True)],
            {left[number]: why for number, why in problems.items()},
        )


def array_of(found: tuple[Any, ...] | None, kind: pa.DataType, count: int) -> pa.Array:
    if found is None:
        return pa.nulls(count, kind)
    if pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        return pa.Array.from_buffers(kind, count, arrow_buffers(found))
    if pa.types.is_floating(kind):
        return pa.Array.from_buffers(pa.float64(), count, arrow_buffers(found)).cast(kind, safe=False)
    numbers = pa.Array.from_buffers(pa.int64(), count, arrow_buffers(found))
    return numbers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else numbers.cast(kind)
