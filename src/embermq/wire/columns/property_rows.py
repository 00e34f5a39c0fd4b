"""The properties of many messages, made from columns: flags and values of each row, one behind the other.

What is the same in every row is added as bytes; the rest are columns (see `rows`), with a byte for each row
that says whether the row has the property (`present`; None: all have it). Add them in the order of their
flags, the highest first. `property_rows.pyx` beside this file is the compiled twin.
"""

from __future__ import annotations

from array import array

from embermq.wire.columns.publish_rows import Buffer, Cells
from embermq.wire.primitive import encode_longstr

_HEADERS_FLAG = 0x2000
_SHORTSTR_BYTES_MAX = 255


def _shortstr(data: bytes) -> bytes:
    if len(data) > _SHORTSTR_BYTES_MAX:
        raise ValueError(f"short string of {len(data)} bytes, {_SHORTSTR_BYTES_MAX} is the most")
    return bytes([len(data)]) + data


def _here(present: memoryview | None, row: int) -> bool:
    return present is None or present[row] != 0


def _mask(present: Buffer | None, count: int) -> memoryview | None:
    if present is None:
        return None
    mask = memoryview(present).cast("B")
    if len(mask) < count:
        raise ValueError(f"{len(mask)} rows of {count} are marked")
    return mask


class RowHeaders:
    """The headers of each row: texts out of a map, and one that says which row it is."""

    __slots__ = (
        "_id_here",
        "_ids",
        "_items",
        "_items_here",
        "_keys",
        "_map_here",
        "_name",
        "_places",
        "_prefix",
        "_row",
    )

    def __init__(self) -> None:
        self._places: memoryview | None = None
        self._name = b""
        self._prefix: bytes | None = None
        self._ids: Cells | None = None

    def add_map(
        self, places: Buffer, keys: Cells, items: Cells, items_present: Buffer | None, present: Buffer | None
    ) -> None:
        """Row `n` has the keys and items places[n] to places[n + 1]; an item that is not present is void."""
        bounds = memoryview(places).cast("B").cast("i")
        if keys.count != items.count or any(not 0 <= place <= keys.count for place in bounds):
            raise ValueError("places of a map outside its keys and items")
        self._places, self._keys, self._items = bounds, keys, items
        self._items_here = _mask(items_present, items.count)
        self._map_here = _mask(present, len(bounds) - 1)

    def add_id(
        self, name: bytes, prefix: bytes | None, row: int, ids: Cells | None, present: Buffer | None
    ) -> None:
        """One that is called `name`: what `ids` has; else, with a prefix, that and the row's number."""
        self._name, self._prefix, self._row, self._ids = _shortstr(name), prefix, row, ids
        self._id_here = None if ids is None else _mask(present, ids.count)

    def check(self, count: int) -> None:
        if self._places is not None and len(self._places) != count + 1:
            raise ValueError(f"headers of {len(self._places) - 1} rows, not {count}")
        if self._ids is not None and self._ids.count != count:
            raise ValueError(f"ids of {self._ids.count} rows, not {count}")

    def encode(self, row: int) -> bytes:
        """The fields of a row's table."""
        parts: list[bytes] = []
        given = b""
        if self._ids is not None and _here(self._id_here, row):
            given = self._name + b"S" + encode_longstr(self._ids.cell(row))
        elif self._prefix is not None:
            given = self._name + b"S" + encode_longstr(self._prefix + str(self._row + row).encode())
        if self._places is not None and _here(self._map_here, row):
            for entry in range(self._places[row], self._places[row + 1]):
                name = _shortstr(self._keys.cell(entry))
                if given and name == self._name:
                    continue
                parts.append(name)
                here = _here(self._items_here, entry)
                parts.append(b"S" + encode_longstr(self._items.cell(entry)) if here else b"V")
        return b"".join(parts) + given


class PropertyRows:
    __slots__ = ("_parts", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        self._parts: list[tuple[int, bytes | Cells | memoryview | RowHeaders, memoryview | None, int]] = []

    def add_same(self, flag: int, encoded: bytes) -> None:
        """One that all rows have, as it stands on the wire."""
        self._parts.append((flag, encoded, None, 0))

    def add_texts(self, flag: int, cells: Cells, present: Buffer | None) -> None:
        """Short strings."""
        if cells.count != self.count:
            raise ValueError(f"texts of {cells.count} rows, not {self.count}")
        self._parts.append((flag, cells, _mask(present, self.count), 0))

    def add_numbers(self, flag: int, numbers: Buffer, size: int, present: Buffer | None) -> None:
        """64-bit integers of this machine, which take `size` bytes on the wire."""
        values = memoryview(numbers).cast("B").cast("q")
        if len(values) < self.count:
            raise ValueError(f"numbers of {len(values)} rows, not {self.count}")
        self._parts.append((flag, values, _mask(present, self.count), size))

    def add_headers(self, headers: RowHeaders) -> None:
        headers.check(self.count)
        self._parts.append((_HEADERS_FLAG, headers, None, 0))

    def encode(self) -> tuple[bytearray, bytearray]:
        """Places and data of all rows."""
        places, data = array("i", [0]), bytearray()
        for row in range(self.count):
            flags = 0
            values: list[bytes] = []
            for flag, source, present, size in self._parts:
                if not _here(present, row):
                    continue
                if isinstance(source, bytes):
                    values.append(source)
                elif isinstance(source, Cells):
                    values.append(_shortstr(source.cell(row)))
                elif isinstance(source, RowHeaders):
                    fields = source.encode(row)
                    if not fields:
                        continue
                    values.append(encode_longstr(fields))
                else:
                    values.append(source[row].to_bytes(size, "big"))
                flags |= flag
            data += flags.to_bytes(2, "big")
            data += b"".join(values)
            places.append(len(data))
        return bytearray(places.tobytes()), data
