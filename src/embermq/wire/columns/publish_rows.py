"""Rows as published messages: columns in, the frames of basic.publish out, no object for each message.

The other direction of `column`, with the same layout: buffers as Apache Arrow has them. What is the same in
every row is given once, as bytes. `rows.pyx` beside this file is the compiled twin.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from embermq.wire.kernel import Output
from embermq.wire.primitive import SHORTSTR_BYTES_MAX

Buffer = Any  # whatever has Python's buffer protocol

_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"  # class, method and the unused ticket
_MANDATORY = 1
_PROPERTIES_BYTES_MIN = 2


class Cells:
    """Cell `n` is data[places[n] : places[n + 1]]; the places are 32-bit integers of this machine."""

    __slots__ = ("_data", "_places", "count")

    def __init__(self, places: Buffer, data: Buffer) -> None:
        bounds = memoryview(places).cast("B")
        self._data = memoryview(data).cast("B")
        if len(bounds) % 4 or not len(bounds):
            raise ValueError(f"places are 32-bit integers, one more than values, not {len(bounds)} bytes")
        self._places = bounds.cast("i")
        self.count = len(self._places) - 1
        if self._places[0] < 0 or self._places[self.count] > len(self._data):
            raise ValueError(f"places of values outside their {len(self._data)} bytes")
        for start, stop in pairwise(self._places):
            if stop < start:
                raise ValueError(f"a value ends at {stop}, before it begins at {start}")

    def cell(self, row: int) -> bytes:
        if row < 0 or row >= self.count:
            raise IndexError(f"row {row} of {self.count}")
        return bytes(self._data[self._places[row] : self._places[row + 1]])


Column = Cells | bytes  # bytes: the same in every row


def _check(column: Column, count: int, size_min: int, size_max: int, what: str) -> None:
    if isinstance(column, Cells) and column.count != count:
        raise ValueError(f"columns of {count} and of {column.count} rows")
    for row in range(count if isinstance(column, Cells) else 1):
        size = len(_value(column, row))
        if size > size_max:
            raise ValueError(f"short string of {size} bytes, {size_max} is the most")
        if size < size_min:
            raise ValueError(f"{what} as bytes must be what Properties.encode() gave")


def _value(column: Column, row: int) -> bytes:
    return column.cell(row) if isinstance(column, Cells) else column


class Rows:
    """Messages to be published. `properties` are flags and values, as they stand on the wire."""

    __slots__ = ("_bodies", "_exchange", "_mandatory", "_properties", "_routing_key", "count")

    def __init__(
        self, bodies: Cells, exchange: Column, routing_key: Column, properties: Column, mandatory: bool
    ) -> None:
        self.count = bodies.count
        _check(exchange, self.count, 0, SHORTSTR_BYTES_MAX, "")
        _check(routing_key, self.count, 0, SHORTSTR_BYTES_MAX, "")
        _check(properties, self.count, _PROPERTIES_BYTES_MIN, 0xFFFF_FFFF, "properties")
        self._bodies = bodies
        self._exchange = exchange
        self._routing_key = routing_key
        self._properties = properties
        self._mandatory = mandatory

    def method(self, row: int) -> bytes:
        """The payload of basic.publish."""
        exchange, routing_key = _value(self._exchange, row), _value(self._routing_key, row)
        parts = (
            _PUBLISH,
            bytes([len(exchange)]),
            exchange,
            bytes([len(routing_key)]),
            routing_key,
            bytes([_MANDATORY if self._mandatory else 0]),
        )
        return b"".join(parts)

    def properties(self, row: int) -> bytes:
        return _value(self._properties, row)

    def body(self, row: int) -> bytes:
        return self._bodies.cell(row)

    def put(self, out: Output, channel: int, row: int, frame_max: int, bytes_max: int) -> int:
        """Append the messages from `row` on, until `bytes_max` wait there; the first that is left."""
        if row < 0 or row > self.count or frame_max <= 8:
            raise IndexError(f"row {row} of {self.count}, frame-max {frame_max}")
        while row < self.count and out.size < bytes_max:
            out.put_publish(channel, self.method(row), self.properties(row), self.body(row), frame_max)
            row += 1
        return row
