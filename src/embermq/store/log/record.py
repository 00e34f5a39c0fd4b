"""Codec of the records in a segment file: the one module that knows their layout.

     0  4  crc32 of bytes 4..end     begun with crc32(identity of the file), so that bytes which look like a
     4  4  payload length            record (a stale block, a message that quotes a segment) are not one
     8  8  sequence                  larger than that of the record before; gaps are allowed
    16  8  timestamp, ms since 1970
    24  1  flags                     bit 0: persistent; the others belong to the caller
    25     payload

All numbers are little-endian. `record.pyx` is the compiled form of this file; tests run over both.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from embermq.store.log.bitmap import Bitmap

PERSISTENT = 1  # flag: without it a record is forgotten when the log is opened again
RECORD_HEADER_SIZE = 25
JOIN_BYTES_MAX = 2048  # below this, joining a record is cheaper than a checksum call per part

_header = Struct("<IIQQB")
_unpack_header = _header.unpack_from
_pack_rest = Struct("<IQQB").pack
_pack_checksum = Struct("<I").pack
_join = b"".join


def put_record(
    buffer: bytearray,
    fill: int,
    seed: int,
    sequence: int,
    timestamp_ms: int,
    flags: int,
    parts: tuple[bytes, ...],
) -> int:
    """Write a record at `fill`, growing the buffer if need be; answer where it ends."""
    length = 0
    for part in parts:
        length += len(part)
    rest = _pack_rest(length, sequence, timestamp_ms, flags)
    end = fill + RECORD_HEADER_SIZE + length
    if length <= JOIN_BYTES_MAX:
        record = _join((rest, *parts))
        buffer[fill:end] = _pack_checksum(crc32(record, seed)) + record
        return end
    checksum = crc32(rest, seed)
    for part in parts:
        checksum = crc32(part, checksum)
    buffer[fill:end] = _join((_pack_checksum(checksum), rest, *parts))
    return end


def put_spans(
    buffer: bytearray,
    fill: int,
    seed: int,
    sequence: int,
    timestamp_ms: int,
    flags: int,
    prefix: bytes,
    source: bytearray,
    start_1: int,
    stop_1: int,
    start_2: int,
    stop_2: int,
) -> int:
    """As `put_record`, of a payload whose parts are `prefix` and two spans of another buffer."""
    if not 0 <= start_1 <= stop_1 <= start_2 <= stop_2 <= len(source):
        raise IndexError(f"bytes {start_1}..{stop_1} and {start_2}..{stop_2} of {len(source)}")
    parts = (prefix, bytes(source[start_1:stop_1]), bytes(source[start_2:stop_2]))
    return put_record(buffer, fill, seed, sequence, timestamp_ms, flags, parts)


def keep_alive(buffer: bytearray, begin: int, fill: int, live: Bitmap) -> int:
    """Of the records in `buffer[begin:fill]`, move those that are alive together; answer where they end."""
    if begin < 0 or fill > len(buffer):
        raise IndexError("more than the buffer holds")
    position = target = begin
    while position < fill:
        end, sequence = fill + 1, 0
        if position + RECORD_HEADER_SIZE <= fill:
            _, length, sequence, _, _ = _unpack_header(buffer, position)
            end = position + RECORD_HEADER_SIZE + length
        if end > fill:
            raise IndexError(f"no whole record at {position} of {fill}")
        if live.has(sequence):
            size = end - position
            if target < position:
                buffer[target : target + size] = buffer[position:end]
            target += size
        position = end
    return target


class Record:
    """One record as read back: the payload is a copy, free of the block it was read from."""

    __slots__ = ("flags", "payload", "sequence", "timestamp_ms")

    def __init__(self, sequence: int, timestamp_ms: int, flags: int, payload: bytes) -> None:
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.flags = flags
        self.payload = payload

    def __repr__(self) -> str:
        return f"Record({self.sequence}, {self.timestamp_ms}, {self.flags}, {len(self.payload)} bytes)"


class Header:
    """The header of the record loaded last."""

    __slots__ = ("flags", "length", "sequence", "timestamp_ms")

    def __init__(self) -> None:
        self.length = 0
        self.sequence = 0
        self.timestamp_ms = 0
        self.flags = 0

    def load(self, data: bytes, position: int, seed: int, low: int, high: int) -> int:
        """Load the record at `position` if a whole and sound one with a sequence in [low, high) stands there.

        Answers where it ends, or 0: no number in front of a checksum that does not match is worth anything.
        """
        stop = len(data)
        if position + RECORD_HEADER_SIZE > stop:
            return 0
        checksum, length, sequence, self.timestamp_ms, self.flags = _unpack_header(data, position)
        end: int = position + RECORD_HEADER_SIZE + length
        if end > stop or sequence < low or sequence >= high:
            return 0
        with memoryview(data) as view:
            if crc32(view[position + 4 : end], seed) != checksum:
                return 0
        self.length = length
        self.sequence = sequence
        return end

    def peek(self, data: bytes, position: int) -> int:
        """Load the header at `position` without checking it; where the record ends if it is one.

        0 if the data ends before the header does. The record may end behind the data.
        """
        if position + RECORD_HEADER_SIZE > len(data):
            return 0
        _, self.length, self.sequence, self.timestamp_ms, self.flags = _unpack_header(data, position)
        return position + RECORD_HEADER_SIZE + self.length
