"""One data directory, one broker: an flock on DIR/LOCK, held as long as the process lives.

The kernel releases it however the process ends, so a lock can never be stale. The file also holds the
process id, for the message that the second broker gets.
"""

from __future__ import annotations

import fcntl
import os

from embermq.store.failure import DirectoryLocked


class DirectoryLock:
    """Holds the lock from construction to `release`."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            who = f"process {holder}" if holder else "another process"
            raise DirectoryLocked(
                f"{os.path.dirname(path)} is in use by {who}: two brokers cannot share a data directory"
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        # The file stays: removing it would let a third process lock a new one beside ours.
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
