"""Index files of full segments of a stream: what a start has to know of a segment without reading it.

A stream may be longer than memory, and too long to be read at a start. So of a full segment that is
safe on disk only the ends, the size and the count stay in memory; where its records stand is looked up here
when reading begins in the middle of it. The file `<the segment's name>.index` is never synced: when it is
missing, or does not check out, or the segment's size is another, the segment is read. All numbers are
little-endian.

     0  8  magic "EMBRINDX"
     8  2  version                   1
    10  2  reserved                  0
    12  8  first sequence            both as in the segment
    20  8  identity
    28  8  size of the segment file
    36  8  how many records
    44  8  sequence of the last one
    52  8  the latest timestamp
    60  4  how many entries
    64  4  crc32 of the entries
    68  4  crc32 of bytes 0..67
    72     entries of 24 bytes, one per 64 KiB or so of the segment, in order: sequence of a record (8), where
           it begins (8), the latest timestamp before it (8)

Only the first 72 bytes are read at a start. All records of such a segment are alive: a stream acks nothing.
"""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from zlib import crc32

from embermq.store.disk.filesystem import FileSystem, read_all, write_all
from embermq.store.log.segment import Segment
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE, SEGMENT_SUFFIX, SEQUENCE_SPAN_MAX

MAGIC = b"EMBRINDX"
VERSION = 1
INDEX_SUFFIX = ".index"
HEADER = struct.Struct("<8sHHQQQQQQII")
CHECKSUM = struct.Struct("<I")
HEADER_SIZE = HEADER.size + CHECKSUM.size
ENTRY = struct.Struct("<QQQ")


def index_path(directory: str, segment: Segment) -> str:
    return os.path.join(directory, segment.name.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX)


def write_indexes(
    filesystem: FileSystem, directory: str, segments: list[Segment], safe_end: int, everywhere: bool
) -> None:
    """Give the full segments before `safe_end` an index, and let go of what is in it.

    Looks at those behind the last one that has an index; `everywhere`: before that, too.
    """
    for segment in segments[-2::-1]:
        if segment.indexed:
            if everywhere:
                continue
            return
        if segment.last < safe_end and segment.live.count == segment.count and segment.ack_written == 0:
            with contextlib.suppress(OSError):  # a full disk: the segment is read at the next start
                write_index(filesystem, directory, segment)


def write_index(filesystem: FileSystem, directory: str, segment: Segment) -> None:
    assert segment.sealed and segment.written == segment.size and segment.count
    entries = b"".join(
        ENTRY.pack(*entry)
        for entry in zip(segment.index_sequences, segment.index_positions, segment.index_times, strict=True)
    )
    head = HEADER.pack(
        MAGIC,
        VERSION,
        0,
        segment.first,
        segment.identity,
        segment.size,
        segment.count,
        segment.last,
        segment.time_max,
        len(entries) // ENTRY.size,
        crc32(entries),
    )
    path = index_path(directory, segment)
    file = filesystem.open(path, create=not filesystem.exists(path))
    write_all(filesystem, file, head + CHECKSUM.pack(crc32(head)) + entries, 0)
    segment.rest_on_index(segment.count)


def load_from_index(filesystem: FileSystem, directory: str, segment: Segment, low: int, high: int) -> bool:
    """Make a fresh `segment` what its index says, if there is a sound one that fits what is on disk."""
    path = index_path(directory, segment)
    segment_path = os.path.join(directory, segment.name)
    if not filesystem.exists(path) or filesystem.exists(os.path.join(directory, segment.ack_name)):
        return False
    head = None
    with contextlib.suppress(OSError):  # a bad sector, perhaps: the segment is read instead
        head = _sound_head(filesystem.read_at(filesystem.open(path, writable=False), HEADER_SIZE, 0))
    if head is None or (head[3], head[4]) != (segment.first, segment.identity):
        return False
    size, count, last, time_max = head[5:9]
    if size != filesystem.size(filesystem.open(segment_path, writable=False)):
        return False
    if segment.first < low or not segment.first <= last < min(high, segment.first + SEQUENCE_SPAN_MAX):
        return False
    segment.size = segment.written = size
    segment.created = True
    segment.count = count
    segment.last = last
    segment.time_max = time_max
    segment.rest_on_index(count)
    return True


def position_before(filesystem: FileSystem, directory: str, segment: Segment, sequence: int) -> int:
    """Where to start reading forward to find `sequence`; at most an index step too early."""
    if not segment.indexed:
        return segment.position_before(sequence)
    if sequence <= segment.first:
        return SEGMENT_HEADER_SIZE
    columns = _columns(filesystem, directory, segment)
    at = bisect_right(columns[0], sequence)
    return columns[1][at - 1] if at else SEGMENT_HEADER_SIZE


def position_before_time(filesystem: FileSystem, directory: str, segment: Segment, timestamp_ms: int) -> int:
    """Where to start reading forward to find the first record that is not older than `timestamp_ms`."""
    if not segment.indexed:
        return segment.position_before_time(timestamp_ms)
    columns = _columns(filesystem, directory, segment)
    at = bisect_left(columns[2], timestamp_ms)
    return columns[1][at - 1] if at else SEGMENT_HEADER_SIZE


def delete_stray_indexes(filesystem: FileSystem, directory: str, segments: list[Segment]) -> None:
    """Those whose segment is gone, and those that did not check out."""
    wanted = {os.path.basename(index_path(directory, segment)) for segment in segments if segment.indexed}
    for name in filesystem.list(directory):
        if name.endswith(INDEX_SUFFIX) and name not in wanted:
            filesystem.unlink(os.path.join(directory, name))


def _columns(
    filesystem: FileSystem, directory: str, segment: Segment
) -> tuple[array[int], array[int], array[int]]:
    """Sequences, positions and times of the entries; none if the file is not sound any more."""
    columns = array("Q"), array("Q"), array("Q")
    with contextlib.suppress(OSError):
        file = filesystem.open(index_path(directory, segment), writable=False)
        data = read_all(filesystem, file)
        head = _sound_head(data)
        entries = data[HEADER_SIZE:]
        if head is not None and head[4] == segment.identity and head[10] == crc32(entries):
            for entry in ENTRY.iter_unpack(entries):
                for column, number in zip(columns, entry, strict=True):
                    column.append(number)
    return columns


def _sound_head(data: bytes) -> tuple[int, ...] | None:
    head = data[: HEADER.size]
    if len(data) < HEADER_SIZE or CHECKSUM.unpack_from(data, HEADER.size)[0] != crc32(head):
        return None
    fields = HEADER.unpack(head)
    return fields if fields[:2] == (MAGIC, VERSION) else None
