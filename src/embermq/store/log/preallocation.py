"""Preallocation of segment files: the size runs ahead of the records, so that a sync need not change it.

A file that grows with every write makes every sync commit its new size, which costs as much again as the
data. So a segment that is written to in small pieces again and again is stretched a step ahead: by a hole
(`truncate` upwards, which takes no space on disk and needs none), or, where a write fills a good part of a
block of the disk, by zeros, because giving a file a new block costs a sync as much as a new size. Recovery
takes zeros up to the end of the last file for what they are: nothing.

Only the segment that takes appends has room. It goes when the segment is sealed, when its log has been quiet
for a while, and when the broker stops (docs/decisions/0010-room-at-the-end.md).
"""

from __future__ import annotations

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, FileSystem, write_all
from embermq.store.log.segment import Segment

WRITES_BEFORE_ROOM = 8  # a log that is seldom written to is left alone
WRITE_BYTES_MAX = 16 * 1024  # what writes more at a time gathers much per sync: the size matters little
ZEROS_WRITE_BYTES_MIN = 512  # below this, most writes go into a block that the file has already
NEVER = -(1 << 62)


def make_room(disk: Disk, file: File, segment: Segment, segment_bytes: int) -> None:
    """Before a write: let the file reach beyond it, if this is worth while."""
    end = segment.written + segment.fill
    if segment.sealed:
        if segment.reach > end:
            disk.filesystem.truncate(file, end)
        segment.reach = 0
        return
    segment.writes += 1
    if segment.writes < WRITES_BEFORE_ROOM or end <= segment.reach or segment.fill > WRITE_BYTES_MAX:
        return
    reach = min(end + disk.room_bytes, segment_bytes)
    if reach > end:
        try:
            if segment.fill < ZEROS_WRITE_BYTES_MIN:
                disk.filesystem.truncate(file, reach)
            else:
                write_zeros(disk.filesystem, file, end, reach, max(segment.written, segment.reach))
            segment.reach = reach
        except OSError:
            segment.writes = NEVER  # it grows as it is written, as everywhere else


def write_zeros(
    filesystem: FileSystem, file: File, begin: int, end: int, reached: int, synced: bool = False
) -> None:
    """All of them, or the file is as long as before: those not accounted for would be taken for damage one
    day."""
    try:
        write_all(filesystem, file, bytes(end - begin), begin)
        if synced:
            filesystem.sync(file)  # which may be when a file system finds that there is no space
    except OSError:
        filesystem.truncate(file, reached)
        raise
