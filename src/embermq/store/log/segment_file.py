"""File format of segments and ack files: names, headers, ack entries. All numbers are little-endian.

Segment file `<first sequence, 20 digits>-<identity, 16 hex digits>.segment`:

     0  8  magic "EMBRSEGM"          the first 40 bytes keep this layout in all versions
     8  2  version                   1
    10  2  reserved                  0
    12  8  first sequence            no record in the file has a smaller one
    20  8  identity                  random; seeds every checksum in the file and in its ack file
    28  8  created, ms since 1970
    36  4  crc32 of bytes 0..35
    40     records, one after the other (see `record`)

Ack file `<the same name>.acks`: the sequences of the segment that are done with.

     0  8  magic "EMBRACKS"
     8  2  version                   1
    10  2  reserved                  0
    12  8  first sequence            both as in the segment
    20  8  identity
    28  4  crc32 of bytes 0..27
    32     entries of 16 bytes: first sequence (8), how many sequences (4), crc32 (4) of the 12 bytes before,
           begun like a record's; with bit 31 of "how many" set the entry is a note about that one sequence
           (see note), and the other bits are the number noted
"""

from __future__ import annotations

import struct
from zlib import crc32

from embermq.store.errors import NewerVersion

VERSION = 1

SEGMENT_MAGIC = b"EMBRSEGM"
ACK_MAGIC = b"EMBRACKS"
SEGMENT_HEADER = struct.Struct("<8sHHQQQ")
ACK_HEADER = struct.Struct("<8sHHQQ")
CHECKSUM = struct.Struct("<I")
SEGMENT_HEADER_SIZE = 40
ACK_HEADER_SIZE = 32

ACK_RANGE = struct.Struct("<QI")
ACK_ENTRY = struct.Struct("<QII")
ACK_ENTRY_SIZE = 16
NOTE = 1 << 31

# A segment covers at most so many sequences, which bounds its bitmap of live records to 128 KiB.
SEQUENCE_SPAN_MAX = 1 << 20
SEQUENCE_MAX = (1 << 64) - 1

SEGMENT_SUFFIX = ".segment"
ACK_SUFFIX = ".acks"


def checksum_seed(identity: int) -> int:
    return crc32(identity.to_bytes(8, "little"))


def segment_name(first: int, identity: int) -> str:
    """The common part of the names of a segment and its ack file."""
    return f"{first:020d}-{identity:016x}"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """(first sequence, identity) of the name of a segment or ack file without its suffix, or None."""
    first, dash, identity = name.partition("-")
    if not dash or len(first) != 20 or len(identity) != 16 or not (first.isascii() and first.isdecimal()):
        return None
    try:
        return int(first), int(identity, 16)
    except ValueError:
        return None


def encode_segment_header(first: int, identity: int, created_ms: int) -> bytes:
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, VERSION, 0, first, identity, created_ms)
    return head + CHECKSUM.pack(crc32(head))


def encode_ack_header(first: int, identity: int) -> bytes:
    head = ACK_HEADER.pack(ACK_MAGIC, VERSION, 0, first, identity)
    return head + CHECKSUM.pack(crc32(head))


def encode_ack_entry(first: int, count: int, seed: int) -> bytes:
    return ACK_ENTRY.pack(first, count, crc32(ACK_RANGE.pack(first, count), seed))


def is_segment_header(data: bytes, path: str, first: int, identity: int) -> bool:
    """Whether `data` begins with the header that belongs to the name; a newer version is refused."""
    head = _verified(data, SEGMENT_HEADER, SEGMENT_MAGIC, path)
    return head is not None and (head[3], head[4]) == (first, identity)


def is_ack_header(data: bytes, path: str, first: int, identity: int) -> bool:
    head = _verified(data, ACK_HEADER, ACK_MAGIC, path)
    return head is not None and (head[3], head[4]) == (first, identity)


def _verified(data: bytes, layout: struct.Struct, magic: bytes, path: str) -> tuple[int, ...] | None:
    size = layout.size
    if len(data) < size + CHECKSUM.size or data[: len(magic)] != magic:
        return None
    if CHECKSUM.unpack_from(data, size)[0] != crc32(data[:size]):
        return None
    head = layout.unpack_from(data, 0)
    if head[1] > VERSION:
        raise NewerVersion(
            f"{path} has format version {head[1]}; this EmberMQ reads up to version {VERSION}: "
            "start the newer EmberMQ that wrote it"
        )
    return head
