"""One data directory, one broker: an flock on DIR/LOCK, held as long as the process lives.

The kernel releases it however the process ends, so a lock can never be stale. The file also holds the
process id, for the message that the second broker gets.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from embermq.store.failure import DirectoryLocked


class DirectoryLock:
    """Holds the lock from construction to `release`."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = holder(self._descriptor)
            os.close(self._descriptor)
            raise DirectoryLocked(
                f"{os.path.dirname(path)} is in use by {who}: two brokers cannot share a data directory"
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError as error:  # a full disk
            os.close(self._descriptor)
            error.filename = path
            raise

    def release(self) -> None:
        # The file stays: removing it would let a third process lock a new one beside ours.
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


@contextlib.contextmanager
def held_for_reading(path: str) -> Iterator[None]:
    """Keep brokers out while a tool reads; other readers are welcome. A copy may have no lock file at all."""
    if not os.path.exists(path):
        yield
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryLocked(
                f"{os.path.dirname(path)} is in use by {holder(descriptor)}: stop that broker first"
            ) from None
        yield
    finally:
        os.close(descriptor)


def holder(descriptor: int) -> str:
    number = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return f"process {number}" if number else "another process"
