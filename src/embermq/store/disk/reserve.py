"""Disk reserve: a file that shrinks to make room for what must be written when the disk is full.

Acknowledgements make room one day, but are written first; so do deletions of queues. A stop notes that it was
one, and a start that it began. New messages and declarations wait until others have made room. The file is
filled again once there is plenty.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

from embermq.store.disk.filesystem import File, FileSystem

logger = logging.getLogger("embermq.store")

RESERVE_BYTES = 1024 * 1024
STEP_BYTES = 4096  # a block: the file that it is freed for uses all of it
PLENTY = 8  # times the reserve must be free for it to be filled
RETRY_SECONDS = 1.0
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


class Reserve:
    """Belongs to one data directory. Where no file can be had, there is simply no reserve."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.filesystem = filesystem
        self.path = path
        self.size = 0
        self._file: File | None = None
        with contextlib.suppress(OSError):
            self._file = filesystem.open(path, create=not filesystem.exists(path))
            self.size = min(filesystem.size(self._file), RESERVE_BYTES)

    def fill(self) -> None:
        """If there is plenty of room, and if it is not full already."""
        if self._file is None or self.size == RESERVE_BYTES:
            return
        with contextlib.suppress(OSError):
            if self.filesystem.free_bytes(os.path.dirname(self.path)) >= PLENTY * RESERVE_BYTES:
                self.filesystem.allocate(self._file, RESERVE_BYTES)
                self.size = RESERVE_BYTES

    def release(self, size: int = STEP_BYTES) -> bool:
        """Make some room; False if none is left here. By any thread: two at once make less than twice."""
        if self._file is None or self.size <= 0:
            return False
        self.size = max(self.size - size, 0)
        with contextlib.suppress(OSError):
            self.filesystem.truncate(self._file, self.size)
            return True
        return False

    def wait_for_room(self, action: Callable[[], T], size: int) -> T:
        """What the action returns, once there is room for it; the reserve is the first to make some."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                if not self.release(size):
                    logger.error("%s; the start waits until there is room", error)
                    time.sleep(RETRY_SECONDS)
