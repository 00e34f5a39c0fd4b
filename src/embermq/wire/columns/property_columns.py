"""The properties of many messages taken apart, into a column for each that is wanted.

What comes out are buffers as Apache Arrow has them (integers in this machine's byte order), by name; None
where no message has that property:

    texts           bits of those that are there (or None: all are), places, data    correlation_id, type, ...
    numbers         bits (or None), 64-bit integers                 delivery_mode, priority, timestamp
    "taken_ms"      likewise: when the broker took the message, by a header that says so
    "headers"       a map of texts: places; keys: places, data; items: bits (or None), places, data
    "headers_json"  as texts: an object of all headers, sorted by name

Headers that the broker added (offset and time of a stream) are left out. Of a header that is no text, whole
number, boolean or nothing `text_of` gives the text and `json_of` the JSON. `property_columns.pyx` beside this
file is the compiled twin.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from typing import Any

from embermq.wire.columns.publish_rows import Buffer
from embermq.wire.delivery_headers import OFFSET_FIELD, TIME_FIELD
from embermq.wire.properties import Properties

Made = dict[str, tuple[Any, ...] | None]

OFFSET_NAME, TIME_NAME = OFFSET_FIELD[1:-1].decode(), TIME_FIELD[1:-1].decode()
OTHER_TIME_NAME = "timestamp_in_ms"  # of RabbitMQ's message_timestamp plugin
NUMBERS = ("delivery_mode", "priority", "timestamp")
NUMBER_MAX = (1 << 63) - 1


class PropertyColumns:
    """For batch after batch."""

    __slots__ = ("json_of", "text_of", "wanted")

    def __init__(
        self,
        wanted: Collection[str],
        text_of: Callable[[Any], str | None],
        json_of: Callable[[Any], str],
    ) -> None:
        self.wanted = frozenset(wanted)
        self.text_of = text_of
        self.json_of = json_of

    def decode(self, places: Buffer, data: Buffer, start: int, stop: int) -> Made:
        """Of the messages [start, stop), whose properties stand at data[places[n] : places[n + 1]]."""
        bounds, view = memoryview(places).cast("B").cast("i"), memoryview(data).cast("B")
        if start < 0 or stop < start or stop >= len(bounds):
            raise IndexError(f"messages {start} to {stop} of {len(bounds) - 1}")
        raw = [bytes(view[bounds[row] : bounds[row + 1]]) for row in range(start, stop)]
        rows = [Properties.decode(one, 0, len(one)) for one in raw]
        made: Made = {}
        for name in Properties.__slots__:
            if name in self.wanted and name != "headers":
                values = [getattr(properties, name) for properties in rows]
                made[name] = numbers(values) if name in NUMBERS else texts(values)
        tables = [properties.headers or {} for properties in rows]
        if "taken_ms" in self.wanted:
            made["taken_ms"] = numbers([taken_ms(table) for table in tables])
        own = [
            {name: table[name] for name in table if name not in (OFFSET_NAME, TIME_NAME)} for table in tables
        ]
        if "headers" in self.wanted:
            made["headers"] = self.map_of(own)
        if "headers_json" in self.wanted:
            made["headers_json"] = (None, *cells([self.json_of(table) for table in own]))
        return made

    def map_of(self, tables: list[dict[str, Any]]) -> tuple[Any, ...]:
        places = array("i", [0])
        for table in tables:
            places.append(places[-1] + len(table))
        items = [self.text_of(value) for table in tables for value in table.values()]
        found = texts(items) or (bits(items), *cells(items))
        return bytearray(places.tobytes()), *cells([name for table in tables for name in table]), *found


def taken_ms(table: dict[str, Any]) -> int | None:
    found = table.get(TIME_NAME, table.get(OTHER_TIME_NAME))
    return found if isinstance(found, int) else None


def bits(values: list[Any]) -> bytearray | None:
    """One for each value that is not None; None if all are there."""
    if None not in values:
        return None
    found = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        if value is not None:
            found[row >> 3] |= 1 << (row & 7)
    return found


def texts(values: list[str | None]) -> tuple[Any, ...] | None:
    if all(value is None for value in values):
        return None
    return bits(values), *cells(values)


def cells(values: list[Any]) -> tuple[bytearray, bytearray]:
    places, data = array("i", [0]), bytearray()
    for value in values:
        data += (value or "").encode("utf-8", "surrogateescape")
        places.append(len(data))
    return bytearray(places.tobytes()), data


def numbers(values: list[int | None]) -> tuple[Any, ...] | None:
    if all(value is None for value in values):
        return None
    return bits(values), bytearray(array("q", [min(value or 0, NUMBER_MAX) for value in values]).tobytes())
