"""Values of formats that have types of their own (Avro, Protobuf, MessagePack) as Arrow takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyspark_embermq.decoding.casting import Convert, Misfit

UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def typed_converter(kind: pa.DataType) -> Convert:
    """The libraries of these formats make Python's objects, and pyarrow knows which fit."""

    def convert(value: Any, problems: list[str]) -> Any:
        found = with_pairs(value, kind)
        try:
            pa.array([found], kind)
        except UNFIT as error:
            raise Misfit(f"does not fit: {error}") from None
        return found

    return convert


def with_pairs(value: Any, kind: pa.DataType) -> Any:
    """Maps as pyarrow takes them."""
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(name, with_pairs(item, kind.item_type)) for name, item in value.items()]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {field.name: with_pairs(value.get(field.name), field.type) for field in kind}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [with_pairs(item, kind.value_type) for item in value]
    return value


def rows_of(columns: dict[str, pa.Array], count: int) -> list[dict[str, Any]]:
    """The rows of a batch as the libraries take them: maps are dicts."""
    if not columns:
        return [{} for _ in range(count)]
    batch = pa.RecordBatch.from_pydict(columns)
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="lossy")
    return rows
