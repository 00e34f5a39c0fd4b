"""Group commit: one thread syncs what is dirty while the next batch gathers.

    loop's thread:  log.write() -> committer.mark_dirty(log) -> committer.request(callback)
    this thread:    take all that is dirty and all callbacks -> sync -> hand the callbacks back to the loop

There is no timer: how much one sync carries follows from how long the sync before it took. A callback gets
None when everything marked dirty before its request is safe, or the error that makes this impossible. After
one failed sync nothing can be known to be safe any more (the kernel has thrown the dirty pages away), so the
committer refuses all further work.

Few dirty files are synced one by one; beyond `FILES_SYNCED_SINGLY_MAX` one syncfs does them all
(docs/decisions/0006-sync-policy.md). Ack files can wait: losing acks brings messages back, which
is what an ack that nobody confirms means. They are synced with a request that asks for it (tx.commit), or
`ACK_SYNC_SECONDS_MAX` later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol

from embermq.store.failure import CommitFailed
from embermq.store.filesystem import File, FileSystem
from embermq.store.log import Dirty

FILES_SYNCED_SINGLY_MAX = 8
ACK_SYNC_SECONDS_MAX = 1.0

SyncMode = Literal["always", "os"]
Callback = Callable[[Exception | None], None]


class HasDirty(Protocol):
    def take_dirty(self) -> Dirty: ...


class _Batch:
    """What one round of syncing has to do."""

    __slots__ = ("acks", "callbacks", "directories", "everything", "files", "with_acks")

    def __init__(self) -> None:
        self.files: set[File] = set()
        self.directories: set[str] = set()
        self.acks: set[File] = set()
        self.everything = False  # too many files to name them: syncfs
        self.with_acks = False
        self.callbacks: list[Callback] = []

    @property
    def dirty(self) -> bool:
        return bool(self.files or self.directories or self.acks or self.everything)


class Committer:
    """Belongs to the loop's thread, in which all callbacks are called through `call_soon_threadsafe`."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        call_soon_threadsafe: Callable[..., object],
        sync: SyncMode = "always",
        ack_sync_seconds_max: float = ACK_SYNC_SECONDS_MAX,
    ) -> None:
        self.filesystem = filesystem
        # For syncfs. Opened now, because it reports only the errors that happen while it is open.
        self._directory = filesystem.open_directory(directory)
        self.sync = sync
        self.failure: CommitFailed | None = None
        self.syncs = 0  # rounds done, for the metrics
        self._call_soon_threadsafe = call_soon_threadsafe
        self._batch = _Batch()
        self._wake = threading.Condition()
        self._closing = False
        self._ack_sync_seconds_max = ack_sync_seconds_max
        self._acks_synced_at = time.monotonic()
        self._thread: threading.Thread | None = None
        if sync == "always":
            self._thread = threading.Thread(target=self._run, name="store-commit", daemon=True)
            self._thread.start()

    def mark_dirty(self, log: HasDirty) -> None:
        """Include in the next round what the log has written."""
        dirty = log.take_dirty()
        if self._thread is None or self.failure is not None:
            return
        with self._wake:
            batch = self._batch
            sleeping_long = not batch.dirty
            batch.directories |= dirty.directories
            batch.acks |= dirty.acks
            if not batch.everything:
                batch.files |= dirty.files
            if len(batch.files) + len(batch.acks) > FILES_SYNCED_SINGLY_MAX * 8:
                # Hold no descriptors for what one call will sync anyway: there may be thousands.
                batch.everything = True
                batch.files.clear()
                batch.acks.clear()
            if sleeping_long and batch.dirty:
                self._wake.notify()

    def request(self, callback: Callback, with_acks: bool = False) -> None:
        """Call back when everything marked dirty so far is safe (acks too, if asked), or cannot be."""
        if self._thread is None:
            self._call_soon_threadsafe(callback, self.failure)
            return
        with self._wake:
            if self.failure is None and not self._closing:
                self._batch.callbacks.append(callback)
                self._batch.with_acks |= with_acks
                self._wake.notify()
                return
        self._call_soon_threadsafe(callback, self.failure or CommitFailed("the store is closed"))

    def close(self) -> None:
        """Sync what is left, acks included, and end the thread. Callbacks still get their call."""
        if self._thread is not None:
            with self._wake:
                self._closing = True
                self._batch.with_acks = True
                self._wake.notify()
            self._thread.join()

    # -- the thread

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            failure: CommitFailed | None = None
            try:
                self._sync(batch)
                self.syncs += 1
            except Exception as error:
                failure = CommitFailed(f"syncing to disk failed: {error}")
                failure.__cause__ = error
                with self._wake:
                    # Under the lock, so that no request slips in between the failure and the last batch.
                    self.failure = failure
                    batch.callbacks += self._batch.callbacks
                    self._batch = _Batch()
            if batch.callbacks:
                self._call_back(batch.callbacks, failure)
            if failure is not None:
                return

    def _next_batch(self) -> _Batch | None:
        """Wait for a request, or for dirt that has waited long enough; None when it is time to end."""
        with self._wake:
            while not (self._batch.callbacks or self._closing):
                if not self._batch.dirty:
                    self._wake.wait()
                elif not self._wake.wait(self._ack_sync_seconds_max) and self._batch.dirty:
                    self._batch.with_acks = True
                    break
            batch = self._batch
            if not (batch.callbacks or batch.dirty):
                return None
            self._batch = _Batch()
            now = time.monotonic()
            if (
                batch.with_acks
                or batch.everything
                or now >= self._acks_synced_at + self._ack_sync_seconds_max
            ):
                self._acks_synced_at = now
            else:
                self._batch.acks, batch.acks = batch.acks, set()
            return batch

    def _sync(self, batch: _Batch) -> None:
        if batch.everything or len(batch.files) + len(batch.acks) > FILES_SYNCED_SINGLY_MAX:
            self.filesystem.sync_everything(self._directory)
            return
        for file in batch.files:
            self.filesystem.sync(file)
        for file in batch.acks:
            self.filesystem.sync(file)
        # A new file is safe only with its name; a new directory only with its own.
        for path in sorted(batch.directories, reverse=True):
            try:
                self.filesystem.sync_directory(path)
            except FileNotFoundError:
                continue  # the queue was deleted meanwhile, and with it what should have been safe

    def _call_back(self, callbacks: list[Callback], failure: CommitFailed | None) -> None:
        try:
            self._call_soon_threadsafe(_call_all, callbacks, failure)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            return


def _call_all(callbacks: list[Callback], failure: CommitFailed | None) -> None:
    for callback in callbacks:
        callback(failure)
