"""What happens to bytes per message: put a record into a buffer, write it out, take one out of a block.

`kernel.pyx` beside this file is the compiled twin; tests run over both. The layout is in `record`.
"""

from __future__ import annotations

import mmap
import os
from struct import Struct
from time import perf_counter
from zlib import crc32

from embermq.store.bitmap import Bitmap
from embermq.store.promise import Promise

HEADER_SIZE = 25
JOIN_BYTES_MAX = 2048  # below this, joining a record is cheaper than a checksum call per part
BLOCK_BYTES = 4096  # no disk wants larger ones where the page cache is passed by
BLOCKS_BYTES = 4 * BLOCK_BYTES  # the most that is written so at a time

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


def write_through(descriptor: int, data: bytearray, size: int, position: int, promise: Promise) -> int:
    """pwrite of the first `size` bytes, of which as many as it answers are safe when it returns.

    If these are all, the compiled twin keeps the promise, too; here that is left to who made it.
    """
    if size > len(data):
        raise IndexError("more than the buffer holds")
    with memoryview(data) as view, view[:size] as part:
        return _write_safely(descriptor, part, position, promise)


def _write_safely(descriptor: int, part: memoryview, position: int, promise: Promise) -> int:
    began_s = perf_counter()
    if _SYNCED:
        done = os.pwritev(descriptor, (part,), position, _SYNCED)
    else:
        done = os.pwrite(descriptor, part, position)
        os.fdatasync(descriptor)
    promise.seconds = perf_counter() - began_s
    return done


class Blocks:
    """The end of a file that is written to past the page cache, which takes whole blocks only.

    So the last block is kept here: `begin` is where in the file it begins, `fill` how much of it is taken;
    zeros follow. What comes next is laid behind that, and all of it is written up to the end of a block. Up
    to `limit` the file must hold zeros, on the disk. After a write that failed, these blocks are of no use.
    """

    __slots__ = ("_memory", "begin", "descriptor", "fill", "limit")

    def __init__(self, descriptor: int, end: int, content: bytes, limit: int) -> None:
        """The file has its records up to `end`, and `content` of them in its last block."""
        self._memory = mmap.mmap(-1, BLOCKS_BYTES)  # such memory begins where a page does, as it must
        self.descriptor = descriptor  # which somebody else keeps open
        self.begin = end - end % BLOCK_BYTES
        self.fill = end - self.begin
        self.limit = limit
        if len(content) != self.fill:
            raise ValueError(f"{len(content)} bytes of a block that holds {self.fill}")
        self._memory[: self.fill] = content

    def end(self) -> int:
        return self.begin + self.fill

    def fit(self, position: int, size: int) -> bool:
        """Can so much be written there?"""
        return (
            position == self.begin + self.fill
            and position + size <= self.limit - self.limit % BLOCK_BYTES
            and self.fill + size <= BLOCKS_BYTES
        )

    def lay(self, data: bytearray, size: int) -> int:
        """Put it behind what is there; how much there is to write now."""
        stop = self.fill + size
        if size > len(data) or stop > BLOCKS_BYTES:
            raise IndexError("more than the blocks hold")
        self._memory[self.fill : stop] = bytes(data[:size])
        return -(-stop // BLOCK_BYTES) * BLOCK_BYTES

    def advance(self, size: int) -> None:
        """What was laid down is written: keep the last block of it."""
        self.fill += size
        over = self.fill - self.fill % BLOCK_BYTES
        if over:
            self.begin += over
            self.fill -= over
            self._memory.move(0, over, self.fill)
            self._memory[self.fill : self.fill + over] = bytes(over)

    def write_through(self, data: bytearray, size: int, promise: Promise) -> int:
        """As the function of that name, where these blocks end."""
        whole = self.lay(data, size)
        with memoryview(self._memory) as view, view[:whole] as part:
            done = _write_safely(self.descriptor, part, self.begin, promise)
        if done < whole:
            return max(0, min(done - self.fill, size))
        self.advance(size)
        return size


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
