"""Bloom filter of a segment: which values occur in it, so that a reader of others can skip it.

File `<the segment's name>.filter`, written when the segment is full. It may be missing, or wrong by its
checksum: then the segment is read. All numbers are little-endian.

     0  8  magic "EMBRFILT"
     8  2  version                   1
    10  2  flags                     bit 0: there are records without a value
    12  8  first sequence            both as in the segment
    20  8  identity
    28  4  crc32 of the bits and of bytes 0..27
    32     4096 bytes of bits: a value has four, the numbers of its blake2b digest (16 bytes) modulo 32768
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

from embermq.store.log.log import Log
from embermq.store.log.segment import Segment
from embermq.store.log.segment_file import SEGMENT_SUFFIX

MAGIC = b"EMBRFILT"
VERSION = 1
HEADER = struct.Struct("<8sHHQQ")
CHECKSUM = struct.Struct("<I")
SUFFIX = ".filter"
BITS_BYTES = 4096
HAS_OTHERS = 1

_digest_numbers = struct.Struct("<4I")


@lru_cache(maxsize=4096)
def places_of(value: str) -> tuple[int, ...]:
    """The bits of a value."""
    digest = blake2b(value.encode("utf-8", "surrogateescape"), digest_size=16).digest()
    return tuple(number % (BITS_BYTES * 8) for number in _digest_numbers.unpack(digest))


class SegmentFilter:
    __slots__ = ("bits", "has_others")

    def __init__(self) -> None:
        self.bits = bytearray(BITS_BYTES)
        self.has_others = False  # records without a value

    def add(self, value: str | None) -> None:
        if value is None:
            self.has_others = True
            return
        for place in places_of(value):
            self.bits[place >> 3] |= 1 << (place & 7)

    def may_have(self, value: str) -> bool:
        return all(self.bits[place >> 3] >> (place & 7) & 1 for place in places_of(value))


def filter_path(log: Log, segment: Segment) -> str:
    return os.path.join(log.directory, segment.name.removesuffix(SEGMENT_SUFFIX) + SUFFIX)


def write_filter(log: Log, segment: Segment, found: SegmentFilter) -> None:
    """Nothing relies on it: no sync, and what fails is not tried again."""
    flags = HAS_OTHERS if found.has_others else 0
    head = HEADER.pack(MAGIC, VERSION, flags, segment.first, segment.identity)
    checksum = CHECKSUM.pack(crc32(head, crc32(found.bits)))
    filesystem = log.disk.filesystem
    file = filesystem.open(filter_path(log, segment), create=True)
    filesystem.write_at(file, head + checksum + found.bits, 0)


def read_filter(log: Log, segment: Segment) -> SegmentFilter | None:
    """The filter of a segment, None if there is no sound one."""
    filesystem = log.disk.filesystem
    path = filter_path(log, segment)
    if not filesystem.exists(path):
        return None
    data = filesystem.read_at(filesystem.open(path, writable=False), HEADER.size + 4 + BITS_BYTES, 0)
    head, bits = data[: HEADER.size], data[HEADER.size + 4 :]
    if len(bits) != BITS_BYTES or CHECKSUM.unpack_from(data, HEADER.size)[0] != crc32(head, crc32(bits)):
        return None
    magic, version, flags, first, identity = HEADER.unpack(head)
    if (magic, version, first, identity) != (MAGIC, VERSION, segment.first, segment.identity):
        return None
    found = SegmentFilter()
    found.bits[:] = bits
    found.has_others = bool(flags & HAS_OTHERS)
    return found


def delete_stray_filters(log: Log) -> None:
    """Those whose segment is gone."""
    filesystem = log.disk.filesystem
    if not filesystem.exists(log.directory):
        return
    wanted = {os.path.basename(filter_path(log, segment)) for segment in log.segments}
    for name in filesystem.list(log.directory):
        if name.endswith(SUFFIX) and name not in wanted:
            filesystem.unlink(os.path.join(log.directory, name))
