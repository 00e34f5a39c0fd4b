"""Salvage of files with bad sectors: all blocks that the disk can still read.

A bad sector is damage like any other: what it hit is lost, told, and the rest is served. In place of a block
that cannot be read stand bytes that are neither a record nor zeros, which would be room for one. If there is
more than a block and none can be read, the disk has gone rather than a sector: that is an error.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from embermq.store.disk.filesystem import File, FileSystem, read_span

BLOCK_BYTES = 4096
# The disk's own word for it, and those of file systems that have checksums of their own.
UNREADABLE = (errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ)
NOTHING = b"\xff"


class Salvage(NamedTuple):
    data: bytes
    unreadable: int  # bytes of it


def salvage_span(filesystem: FileSystem, file: File, size: int, position: int) -> Salvage:
    """As `read_span`; what cannot be read is made up."""
    try:
        return Salvage(read_span(filesystem, file, size, position), 0)
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
    stop = min(position + size, filesystem.size(file))
    pieces = []
    unreadable = 0
    while position < stop:
        end = min(position - position % BLOCK_BYTES + BLOCK_BYTES, stop)
        try:
            piece = read_span(filesystem, file, end - position, position)
            if not piece:
                break
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            piece = NOTHING * (end - position)
            unreadable += len(piece)
        pieces.append(piece)
        position += len(piece)
    return Salvage(b"".join(pieces), unreadable)


def salvage_all(filesystem: FileSystem, file: File) -> Salvage:
    """The whole file; only for files whose size is bounded (segments, ack files)."""
    found = salvage_span(filesystem, file, filesystem.size(file), 0)
    if found.unreadable == len(found.data) > BLOCK_BYTES:
        raise OSError(errno.EIO, "nothing of it can be read", file.path)
    return found
