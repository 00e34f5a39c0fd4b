"""Many values as a few buffers, laid out as Apache Arrow has them: what arrives is appended, no object each.

    ByteColumn     places  | 0 | 3 | 3 | 8 |        32-bit integers, one more than there are values
                   data    | one | | three |
    NumberColumn   data    64-bit integers

`Delivery` says where the values of a message stand in what was read. Integers are in the machine's byte
order. `column.pyx` beside this file is the compiled twin.
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

    def take(self, count: int) -> tuple[bytearray, bytearray | memoryview]:
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


class Delivery:
    """Where the parts of one message stand: basic.deliver, its header, and its body in one frame."""

    __slots__ = (
        "body_at",
        "body_stop",
        "names_at",
        "names_stop",
        "properties_at",
        "properties_stop",
        "redelivered",
        "tag",
    )

    def __init__(self) -> None:
        self.tag = 0
        self.redelivered = False
        self.names_at = self.names_stop = 0
        self.properties_at = self.properties_stop = 0
        self.body_at = self.body_stop = 0

    def find(self, buf: bytearray, pos: int, end: int, channel: int, consumer: bytes) -> int:
        """Where the frame behind it begins; 0 if at `pos` there is not, whole, a message for this consumer.

        `consumer` is its tag with the length in front.
        """
        if pos < 0 or end > len(buf):
            raise IndexError(f"bytes {pos}..{end} of a buffer of {len(buf)}")
        method_at = pos + _FRAME_HEAD_BYTES
        header_at = _frame_after(buf, pos, end, 1, channel)
        if not header_at or not buf.startswith(_DELIVER + consumer, method_at):
            return 0
        tag_at = method_at + len(_DELIVER) + len(consumer)
        if tag_at + 11 > header_at - 1:
            return 0
        body_at = _frame_after(buf, header_at, end, 2, channel)
        properties_at = header_at + _FRAME_HEAD_BYTES + 12
        if not body_at or properties_at + 2 > body_at - 1:
            return 0
        size = int.from_bytes(buf[properties_at - 8 : properties_at], "big")
        if not buf.startswith(_CLASS_BASIC, properties_at - 12):
            return 0
        after = _frame_after(buf, body_at, end, 3, channel) if size else body_at
        if not after or (size and after - body_at - 8 != size):
            return 0
        self.tag = int.from_bytes(buf[tag_at : tag_at + 8], "big")
        self.redelivered = buf[tag_at + 8] & 1 != 0
        self.names_at, self.names_stop = tag_at + 9, header_at - 1
        self.properties_at, self.properties_stop = properties_at, body_at - 1
        self.body_at = body_at + _FRAME_HEAD_BYTES if size else body_at
        self.body_stop = self.body_at + size
        return after


_FRAME_HEAD_BYTES = 7
_DELIVER = b"\x00\x3c\x00\x3c"
_CLASS_BASIC = b"\x00\x3c"


def _frame_after(buf: bytearray, pos: int, end: int, kind: int, channel: int) -> int:
    """Where the next frame begins; 0 if there is not, whole, a frame of this kind."""
    if end - pos < 8 or buf[pos] != kind or int.from_bytes(buf[pos + 1 : pos + 3], "big") != channel:
        return 0
    stop = pos + _FRAME_HEAD_BYTES + int.from_bytes(buf[pos + 3 : pos + 7], "big")
    return stop + 1 if stop < end and buf[stop] == 0xCE else 0
