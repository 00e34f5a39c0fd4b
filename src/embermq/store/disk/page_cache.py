"""The kernel's page cache: is a part of a file in it (`has`), and reading it in by a thread (`fetch`).

Reading what is not in the cache waits for the disk, and in the loop's thread all connections wait with it. So
the readers of logs ask first, and go on when the thread has called back.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial

from embermq.store.disk.filesystem import File, FileSystem, read_span
from embermq.store.disk.worker import Background

logger = logging.getLogger("embermq.store")

Callback = Callable[[], object]
PIECE_BYTES = 256 * 1024
UNABLE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class PageCache:
    """Belongs to one thread, in which callbacks are called; without a way to call back all reading waits."""

    def __init__(
        self, filesystem: FileSystem, call_soon_threadsafe: Callable[..., object] | None = None
    ) -> None:
        self.filesystem = filesystem
        self._call_soon_threadsafe = call_soon_threadsafe
        self._tells = call_soon_threadsafe is not None  # can it be asked what it has?
        self._work = Background("store-cache")

    def has(self, file: File, size: int, position: int) -> bool:
        """Can that be read without waiting? Where that is unknown, or reading fails: yes."""
        if self._tells:
            try:
                return self.filesystem.is_cached(file, size, position)
            except OSError as error:
                self._tells = error.errno not in UNABLE
        return True

    def fetch(self, path: str, size: int, position: int, done: Callback) -> bool:
        """Read it in the background, then call back, whatever became of it. False: not possible now."""
        return self._work.put(partial(self._fetch, path, size, position, done))

    def expect(self, path: str, size: int, position: int) -> None:
        """It will be read soon."""
        self._work.put(partial(self._advise, path, size, position, True))

    def let_go(self, path: str) -> None:
        """The file will not be read for a long time: what is safe on the disk need not be in memory."""
        self._work.put(partial(self._advise, path, 0, 0, False))

    def wait(self) -> None:
        """Return when all that was asked for is done."""
        self._work.wait()

    def close(self) -> None:
        """Stop: reads that were not begun are dropped."""
        self._work.forget()
        self._work.close()

    # -- in the background; with descriptors of its own, because the set of open files belongs to the loop

    def _advise(self, path: str, size: int, position: int, wanted: bool) -> None:
        self.filesystem.advise(self.filesystem.open(path, writable=False), size, position, wanted)

    def _fetch(self, path: str, size: int, position: int, done: Callback) -> None:
        assert self._call_soon_threadsafe is not None
        try:
            file = self.filesystem.open(path, writable=False)
            for begin in range(position, position + size, PIECE_BYTES):
                read_span(self.filesystem, file, min(PIECE_BYTES, position + size - begin), begin)
        except OSError as error:
            logger.debug(
                "reading ahead in %s: %s", path, error
            )  # the next read meets it again, and reports it
        finally:
            try:
                self._call_soon_threadsafe(done)
            except RuntimeError:
                pass  # the loop is closed
