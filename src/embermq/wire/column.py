"""Many values as a few buffers, laid out as Apache Arrow has them: what arrives is appended, no object each.

    ByteColumn     places  | 0 | 3 | 3 | 8 |        32-bit integers, one more than there are values
                   data    | one | | three |
    NumberColumn   data    64-bit integers

Integers are in the machine's byte order. `column.pyx` beside this file is the compiled twin.
"""

from __future__ import annotations

from array import array

PLACE_MAX = 0x7FFFFFFF
NO_VALUE = -1


def _check_count(wanted: int, count: int) -> None:
    if wanted < 0 or wanted > count:
        raise IndexError(f"{wanted} values of {count}")


class ByteColumn:
    """Values of any length one behind the other, and the place where each begins."""

    __slots__ = ("_data", "_places")

    def __init__(self) -> None:
        self._data = bytearray()
        self._places = array("i", [0])

    @property
    def count(self) -> int:
        return len(self._places) - 1

    def append(self, buf: bytearray, start: int, stop: int) -> int:
        """More of the value that is being put together."""
        if start < 0 or stop < start or stop > len(buf):
            raise IndexError(f"bytes {start}..{stop} of a buffer of {len(buf)}")
        if len(self._data) + stop - start > PLACE_MAX:
            raise OverflowError(f"a column holds less than 2 GiB, not {len(self._data) + stop - start} bytes")
        self._data += buf[start:stop]
        return 0

    def end(self) -> int:
        """That value is whole."""
        self._places.append(len(self._data))
        return 0

    def forget_after(self, count: int) -> int:
        """Back to the first `count` values."""
        _check_count(count, self.count)
        del self._data[self._places[count] :]
        del self._places[count + 1 :]
        return 0

    def take(self, count: int) -> tuple[bytearray, bytearray]:
        """The places and the bytes of the first `count` values, which are gone from here then."""
        _check_count(count, self.count)
        data, places = self._data, self._places
        cut = places[count]
        self._data = data[cut:]
        self._places = array("i", [place - cut for place in places[count:]])
        del data[cut:]
        return bytearray(places[: count + 1].tobytes()), data


class NumberColumn:
    """64-bit integers."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    @property
    def count(self) -> int:
        return len(self._values)

    def append(self, value: int) -> int:
        self._values.append(value)
        return 0

    def forget_after(self, count: int) -> int:
        _check_count(count, self.count)
        del self._values[count:]
        return 0

    def take(self, count: int) -> bytearray:
        _check_count(count, self.count)
        values = self._values
        self._values = values[count:]
        return bytearray(values[:count].tobytes())


def field_value(buf: bytearray, start: int, stop: int, field: bytes) -> int:
    """The 64-bit integer behind `field` if that stands in buf[start:stop] just once; else -1."""
    if start < 0 or stop < start or stop > len(buf):
        raise IndexError(f"bytes {start}..{stop} of a buffer of {len(buf)}")
    at = buf.find(field, start, stop - 8)
    if at < 0 or buf.find(field, at + 1, stop - 8) >= 0:
        return NO_VALUE
    at += len(field)
    return int.from_bytes(buf[at : at + 8], "big", signed=True)
