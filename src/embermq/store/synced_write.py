"""The one write of somebody who waits alone: safe when it returns, by the shortest way to the disk there is.

At first that is a synced write through the page cache. A file that gets one after the other is written to
past the cache: the kernel copies nothing, looks for no page and writes none back, which takes a tenth off the
time of a sync. That takes whole blocks, so the last one is kept in memory (`kernel.Blocks`); and room of
zeros that are on the disk already, because a new block would cost more than all that. Any other write to the
file (many publishers, a consumer's doings) ends it. See docs/decisions/0015-past-the-page-cache.md.
"""

from __future__ import annotations

import errno

from embermq.store.disk import Disk
from embermq.store.filesystem import File, read_span
from embermq.store.kernel import BLOCK_BYTES, BLOCKS_BYTES, Blocks
from embermq.store.past_cache import PastCache
from embermq.store.promise import Promise
from embermq.store.room import write_zeros
from embermq.store.segment import Segment

STEADY_WRITES = 16  # so many in a row, and more will come
ROOMS_AT_ONCE = 16  # 1 MiB: as much time goes into putting it there as into ten messages
WRITE_BYTES_MAX = BLOCKS_BYTES - BLOCK_BYTES


def write_end(disk: Disk, file: File, segment: Segment, segment_bytes: int, promise: Promise) -> bool:
    """Write what the segment has gathered to the end of its file. False if it is not all safe by one call;
    then, and after an OSError, what is left is written as always."""
    past_cache = file.past_cache
    if past_cache is None:
        past_cache = file.past_cache = PastCache()
    blocks = past_cache.blocks
    if blocks is None or not blocks.fit(segment.written, segment.fill):
        blocks = find_blocks(disk, file, past_cache, segment, segment_bytes)
    if blocks is not None:
        done = write_past_cache(disk, file, past_cache, segment, promise)
    elif segment.must_grow():
        past_cache.synced_end = segment.written + segment.fill  # it will be: only this is written, as always
        return False
    else:
        done = disk.filesystem.write_synced(file, segment.buffer, segment.fill, segment.written, promise)
        past_cache.synced_end = segment.written + done
    if done == segment.fill:
        return True
    past_cache.end()
    segment.forget_written(done)
    return False


def write_past_cache(
    disk: Disk, file: File, past_cache: PastCache, segment: Segment, promise: Promise
) -> int:
    try:
        return disk.filesystem.write_blocks(file, segment.buffer, segment.fill, promise)
    except OSError as error:
        past_cache.give_up()
        if error.errno == errno.EINVAL:  # this file system cannot do it, although it did not say so
            disk.passes_cache = False
            return 0
        raise


def find_blocks(
    disk: Disk, file: File, past_cache: PastCache, segment: Segment, segment_bytes: int
) -> Blocks | None:
    """Those that take what the segment has; None if it shall go the usual way."""
    blocks = past_cache.blocks
    past_cache.end()
    if blocks is None or blocks.end() != segment.written:
        blocks = None
        steady = past_cache.count(segment.written) >= STEADY_WRITES
        if not steady or past_cache.failed or not disk.passes_cache:
            return None
    end = segment.written + segment.fill
    limit = min(end + disk.room_bytes * ROOMS_AT_ONCE, segment_bytes) // BLOCK_BYTES * BLOCK_BYTES
    if limit < end or segment.fill > WRITE_BYTES_MAX or disk.room_bytes == 0:
        return None
    try:
        if blocks is None:
            blocks = keep_last_block(disk, file, past_cache, segment.written)
        lengthen(disk, file, segment, max(blocks.limit, segment.written), limit)
    except OSError:  # no space for room, or no way past the cache; nothing but room was at stake
        past_cache.give_up()
        return None
    blocks.limit = limit
    past_cache.blocks = blocks
    return blocks


def keep_last_block(disk: Disk, file: File, past_cache: PastCache, end: int) -> Blocks:
    filesystem = disk.filesystem
    if past_cache.opened is None:
        past_cache.opened = filesystem.open_past_cache(file)
    begin = end - end % BLOCK_BYTES
    content = read_span(filesystem, file, end - begin, begin)
    if len(content) != end - begin:
        raise OSError(errno.EIO, "its end is not where it should be", file.path)
    return Blocks(past_cache.opened.descriptor, end, content, 0)


def lengthen(disk: Disk, file: File, segment: Segment, begin: int, limit: int) -> None:
    """Put zeros on the disk there, behind the records."""
    if begin < limit:
        write_zeros(disk.filesystem, file, begin, limit, max(segment.written, segment.reach), synced=True)
        segment.reach = max(segment.reach, limit)
