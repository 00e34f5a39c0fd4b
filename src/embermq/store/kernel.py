"""What happens to bytes per message: put a record into a buffer, write it out, take one out of a block.

`kernel.pyx` beside this file is the compiled twin; tests run over both. The layout is in `record`.
"""

from __future__ import annotations

import os
from struct import Struct
from zlib import crc32

from embermq.store.log.bitmap import Bitmap

HEADER_SIZE = 25
JOIN_BYTES_MAX = 2048  # below this, joining a record is cheaper than a checksum call per part

_SYNCED = getattr(os, "RWF_DSYNC", 0)
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
    end = fill + HEADER_SIZE + length
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
        if position + HEADER_SIZE <= fill:
            _, length, sequence, _, _ = _unpack_header(buffer, position)
            end = position + HEADER_SIZE + length
        if end > fill:
            raise IndexError(f"no whole record at {position} of {fill}")
        if live.has(sequence):
            size = end - position
            if target < position:
                buffer[target : target + size] = buffer[position:end]
            target += size
        position = end
    return target


def write_synced(descriptor: int, data: bytearray, size: int, position: int) -> int:
    """pwrite of the first `size` bytes, of which as many as it answers are safe when it returns."""
    if size > len(data):
        raise IndexError("more than the buffer holds")
    with memoryview(data) as view, view[:size] as part:
        if _SYNCED:
            return os.pwritev(descriptor, (part,), position, _SYNCED)
        done = os.pwrite(descriptor, part, position)
        os.fdatasync(descriptor)
        return done


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
        if position + HEADER_SIZE > stop:
            return 0
        checksum, length, sequence, self.timestamp_ms, self.flags = _unpack_header(data, position)
        end: int = position + HEADER_SIZE + length
        if end > stop or sequence < low or sequence >= high:
            return 0
        with memoryview(data) as view:
            if crc32(view[position + 4 : end], seed) != checksum:
                return 0
        self.length = length
        self.sequence = sequence
        return end
