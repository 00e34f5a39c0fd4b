"""Lock of a data directory: an flock on DIR/LOCK, held as long as the broker's process lives.

The kernel releases it however the process ends, so a lock can never be stale. The file also holds the
process id, for the message that the second broker gets. The directory itself is locked as well, in case
the file is deleted because it is taken for the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator

from embermq.store.errors import DirectoryLocked


class DirectoryLock:
    """Holds the lock from construction to `release`."""

    def __init__(self, path: str) -> None:
        with contextlib.ExitStack() as opened:  # closed again if anything goes wrong
            self._descriptor = opened_for(opened, path, os.O_RDWR | os.O_CREAT)
            self._directory = opened_for(opened, os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            if not (locked(self._descriptor, fcntl.LOCK_EX) and locked(self._directory, fcntl.LOCK_EX)):
                raise DirectoryLocked(
                    f"{os.path.dirname(path)} is in use by {holder(self._descriptor)}: "
                    "two brokers cannot share a data directory"
                )
            with contextlib.suppress(OSError):  # a full disk: the message says less
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
            opened.pop_all()

    def release(self) -> None:
        # The file stays: removing it would let a third process lock a new one beside ours.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        os.close(self._directory)


@contextlib.contextmanager
def held_for_reading(path: str) -> Iterator[None]:
    """Keep brokers out while a tool reads; other readers are welcome. A copy may have no lock file at all."""
    directory = os.path.dirname(path)
    with contextlib.ExitStack() as opened:
        process = "another process"
        if os.path.exists(path):
            descriptor = opened_for(opened, path, os.O_RDONLY)
            free = locked(descriptor, fcntl.LOCK_SH)
            process = holder(descriptor)
        else:
            free = True
        if os.path.isdir(directory) and free:
            free = locked(opened_for(opened, directory, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
        if not free:
            raise DirectoryLocked(f"{directory} is in use by {process}: stop that broker first")
        yield


def opened_for(opened: contextlib.ExitStack, path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o640)
    opened.callback(os.close, descriptor)
    return descriptor


def locked(descriptor: int, kind: int) -> bool:
    """False if another process is in the way. Not every file system can lock a directory."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    return True


def holder(descriptor: int) -> str:
    number = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return f"process {number}" if number else "another process"
