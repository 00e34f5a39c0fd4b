"""`Arrivals`: received messages as Arrow columns on the client's own buffers.

Nothing is copied or decoded before it is asked for.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from embermq.client import ColumnBatch, Message
from embermq.client.core.columns import Values
from embermq.wire.columns.property_columns import Made, PropertyColumns

NO_OFFSET = -1


class Arrivals:
    """The messages [start, stop) of a batch of the client."""

    def __init__(self, batch: ColumnBatch, start: int = 0, stop: int | None = None) -> None:
        self.batch = batch
        self.start = start
        self.stop = batch.count if stop is None else stop

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Self:
        """Some of these."""
        return type(self)(self.batch, self.start + start, min(self.start + stop, self.stop))

    @cached_property
    def body(self) -> pa.Array:
        return self.array(self.batch.body, pa.binary())

    def body_sizes(self) -> list[int]:
        from pyarrow import compute

        sizes: list[int] = compute.binary_length(self.body).to_pylist()
        return sizes

    @cached_property
    def exchange(self) -> pa.Array:
        return self.array(self.batch.exchange, pa.string())

    @cached_property
    def routing_key(self) -> pa.Array:
        return self.array(self.batch.routing_key, pa.string())

    @cached_property
    def redelivered(self) -> pa.Array:
        return self.numbers(self.batch.redelivered).cast(pa.bool_())

    @cached_property
    def offset(self) -> pa.Array:
        """In the stream; null where there is none."""
        from pyarrow import compute  # here: it is slow to import, and planning a query does without

        offsets = self.numbers(self.batch.offset)
        known = compute.not_equal(offsets, NO_OFFSET)
        return offsets if known.false_count == 0 else compute.if_else(known, offsets, None)

    def take_apart(self, columns: PropertyColumns) -> None:
        """Decode what is wanted of the properties; the methods below give it."""
        values = self.batch.properties
        assert values is not None, "a column that nobody asked for"
        self.made: Made = columns.decode(values.places, values.data, self.start, self.stop)

    def texts(self, name: str) -> pa.Array:
        """A property; UTF-8 or not, as it came."""
        found = self.made[name]
        if found is None:
            return pa.nulls(len(self), pa.string())
        return pa.Array.from_buffers(pa.string(), len(self), arrow_buffers(found))

    def integers(self, name: str) -> pa.Array:
        found = self.made[name]
        if found is None:
            return pa.nulls(len(self), pa.int64())
        return pa.Array.from_buffers(pa.int64(), len(self), arrow_buffers(found))

    def header_maps(self) -> pa.MapArray:
        found = self.made["headers"]
        assert found is not None
        places, key_places, key_data, *items = found
        count = len(key_places) // 4 - 1
        bounds = pa.Array.from_buffers(pa.int32(), len(self) + 1, [None, pa.py_buffer(places)])
        return pa.MapArray.from_arrays(
            bounds,
            pa.Array.from_buffers(pa.string(), count, arrow_buffers((None, key_places, key_data))),
            pa.Array.from_buffers(pa.string(), count, arrow_buffers(items)),
        )

    def message(self, index: int) -> Message:
        return self.batch.message(self.start + index)

    def array(self, values: Values | None, kind: pa.DataType) -> pa.Array:
        assert values is not None, "a column that nobody asked for"
        buffers = [None, pa.py_buffer(values.places), pa.py_buffer(values.data)]
        return pa.Array.from_buffers(kind, len(self), buffers, 0, self.start)

    def numbers(self, values: bytearray | None) -> pa.Array:
        assert values is not None, "a column that nobody asked for"
        return pa.Array.from_buffers(pa.int64(), len(self), [None, pa.py_buffer(values)], 0, self.start)


def arrow_buffers(found: Any) -> list[pa.Buffer | None]:
    return [None if buffer is None else pa.py_buffer(buffer) for buffer in found]
