"""Group commit: one thread syncs what is dirty while the next batch gathers.

    loop's thread:  log.write() -> committer.mark_dirty(log) -> committer.request(callback)
    this thread:    take all that is dirty and all callbacks -> sync -> hand the callbacks back to the loop

There is no timer: how much one sync carries follows from how long the sync before it took. A callback gets
None when everything marked dirty before its request is safe, or the error that makes this impossible. After
one failed sync nothing can be known to be safe any more (the kernel has thrown the dirty pages away), so the
committer refuses all further work.

Handing work over to a thread and back costs about as much as a quick disk takes to sync. So a request that is
alone (no other requests, there is little to sync, and the loop has nothing to do but to wait for it) is
served in the loop's own thread, at the end of the turn that asks: see `sync_here`. For others that is a pause
of one quick sync; so it happens only while there are no others, and while the last syncs were quick.

Few dirty files are synced one by one; beyond `FILES_SYNCED_SINGLY_MAX` one syncfs does them all
(docs/decisions/0006-sync-policy.md, 0011). Ack files can wait: losing acks brings messages back, which
is what an ack without a confirm means. They are synced with a request that asks for it (tx.commit), or
`ACK_SYNC_SECONDS_MAX` later.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol

from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.errors import CommitFailed
from embermq.store.histogram import Histogram

logger = logging.getLogger("embermq.store")

FILES_SYNCED_SINGLY_MAX = 8
FILES_SYNCED_HERE_MAX = 2  # by the loop's own thread
ACK_SYNC_SECONDS_MAX = 1.0
SYNCS_AFTER_OTHERS = 16  # so many are left to the thread when others had a turn between two of them
QUICK_SYNC_SECONDS = 1e-3  # longer than this, on average, and the loop must not wait for it
AVERAGED_SYNCS = 8
SLOW_SYNC_FACTOR = 3  # a sync that takes so many times longer leaves the next ones to the thread
SYNCS_AFTER_SLOW_ONE = 16
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
DESCRIPTOR_WAIT_SECONDS = 0.1
TRIES_WHEN_CLOSING = 20
IDLE_ROUNDS = 5  # the thread looks so many times for something to do before it waits to be called

SyncMode = Literal["always", "os"]
Callback = Callable[[Exception | None], None]

# Sets that are never changed, only replaced: idle logs, of which there are many, share the empty ones.
NO_FILES: frozenset[File] = frozenset()
NO_NAMES: frozenset[str] = frozenset()


class Dirty:
    """What must be synced before anything written so far counts as safe; `acks` may wait longer."""

    __slots__ = ("acks", "directories", "files")

    def __init__(self, files: frozenset[File], directories: frozenset[str], acks: frozenset[File]) -> None:
        self.files = files
        self.directories = directories
        self.acks = acks


class Batch:
    """What one round of syncing has to do, and its callbacks."""

    __slots__ = ("acks", "callbacks", "directories", "everything", "files", "with_acks")

    def __init__(self) -> None:
        self.files: set[File] = set()
        self.directories: set[str] = set()
        self.acks: set[File] = set()
        self.everything = False  # too many files to name them: syncfs
        self.with_acks = False
        self.callbacks: list[Callback] = []

    def is_dirty(self) -> bool:
        return bool(self.files or self.directories or self.acks or self.everything)

    def is_small(self) -> bool:
        """Is there so little to sync that the loop's thread may do it?"""
        return (
            not (self.directories or self.everything)
            and len(self.files) + len(self.acks) <= FILES_SYNCED_HERE_MAX
        )


class HasDirty(Protocol):
    def take_dirty(self) -> Dirty: ...


class Turns(Protocol):
    """The rounds of work in the loop's thread."""

    @property
    def active_count(self) -> int:
        """How many there were with output to any connection; turns that only note acks do not count."""
        ...

    def at_end(self, action: Callable[[bool], None]) -> None:
        """Call when the round has done all else, with True if nothing is left for another."""
        ...


class SyncSpeed:
    """Is the disk quick enough that the loop may wait for it? While small syncs are, on average; one that
    takes far longer leaves the next ones to the thread."""

    __slots__ = ("average_seconds", "quick_seconds", "slow_seconds", "syncs_until_quick", "weight")

    def __init__(self) -> None:
        self.weight = 1 / AVERAGED_SYNCS  # of the last one
        self.syncs_until_quick = 0
        self.call_quick(QUICK_SYNC_SECONDS)

    def call_quick(self, seconds: float) -> None:
        """What takes less than that is quick; no disk is before it has shown it."""
        self.quick_seconds = seconds
        self.slow_seconds = SLOW_SYNC_FACTOR * seconds
        self.average_seconds = 2 * seconds

    def is_quick(self) -> bool:
        return self.average_seconds < self.quick_seconds and not self.syncs_until_quick

    def note(self, seconds: float) -> None:
        """A small sync took so long."""
        if seconds >= self.slow_seconds:
            self.syncs_until_quick = SYNCS_AFTER_SLOW_ONE
            return
        self.average_seconds += (seconds - self.average_seconds) * self.weight
        if self.syncs_until_quick:
            self.syncs_until_quick -= 1

    def pause(self, syncs: int) -> None:
        """Whatever they take, the loop does not wait for the next ones."""
        self.syncs_until_quick = max(self.syncs_until_quick, syncs)


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
        self._directory: File | None = filesystem.open_directory(directory)
        self.sync = sync
        self.failure: CommitFailed | None = None
        self.sync_times = Histogram()  # of the rounds done, for the metrics
        self._call_soon_threadsafe = call_soon_threadsafe
        self._batch = Batch()
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._closing = False
        self._ack_sync_seconds_max = ack_sync_seconds_max
        self._acks_synced_at = time.monotonic()
        self._busy = False  # the thread is syncing
        self._asleep = False  # it waits for something to do, and not only for a while
        self._handed_back = 0  # batches whose callbacks are on their way to the loop
        self._speed = SyncSpeed()  # of small batches
        self._turns: Turns | None = None
        self._next_turn = 0  # the one after that which sends what the last callbacks had to say
        self._thread: threading.Thread | None = None
        if sync == "always":
            self._thread = threading.Thread(target=self._run, name="store-commit", daemon=True)
            self._thread.start()

    def sync_here(self, turns: Turns | None, quick_seconds: float = QUICK_SYNC_SECONDS) -> None:
        """Allow quick syncs in the loop's thread, in turns that leave nothing else to do."""
        self._turns = turns
        self._speed.call_quick(quick_seconds)

    @property
    def syncs(self) -> int:
        """Rounds done."""
        return self.sync_times.count

    def mark_dirty(self, log: HasDirty) -> None:
        """Include in the next round what the log has written."""
        dirty = log.take_dirty()
        if self._thread is None or self.failure is not None:
            return
        with self._lock:
            batch = self._batch
            batch.directories |= dirty.directories
            batch.acks |= dirty.acks
            if not batch.everything:
                batch.files |= dirty.files
            if len(batch.files) + len(batch.acks) > FILES_SYNCED_SINGLY_MAX * 8:
                # Hold no descriptors for what one call will sync anyway: there may be thousands.
                batch.everything = True
                batch.files.clear()
                batch.acks.clear()
            if self._asleep and batch.is_dirty():
                self._asleep = False
                self._wake.notify()

    def request(self, callback: Callback, with_acks: bool = False) -> None:
        """Call back when everything marked dirty so far is safe (acks too, if asked), or cannot be."""
        if self._thread is None:
            self._call_soon_threadsafe(callback, self.failure)
            return
        with self._lock:
            if self.failure is None and not self._closing:
                batch = self._batch
                batch.callbacks.append(callback)
                batch.with_acks |= with_acks
                if self._turns is not None and self._speed.is_quick() and self._is_alone(batch):
                    self._turns.at_end(self._sync_here)
                elif not self._busy:
                    self._wake.notify()
                return
        self._call_soon_threadsafe(callback, self.failure or CommitFailed("the store is closed"))

    def may_write_synced(self, turn: int) -> bool:
        """Is there nothing else to sync, no other callback, and is the disk quick? Then the only
        log with something to write in this turn may be written synced (see `wrote_synced`)."""
        if self._turns is None or self._thread is None or self.failure is not None:
            return False
        if turn > self._next_turn or not self._speed.is_quick():
            return False
        # Without the lock, but in this order: the thread is busy before it takes a batch, and has handed back
        # what it did before it is not busy any more.
        batch = self._batch
        if batch.callbacks or batch.files or batch.directories or batch.everything or self._closing:
            return False
        return not (self._busy or self._handed_back)

    def wrote_synced(self, turn: int, seconds: float) -> None:
        self.sync_times.observe(seconds)
        self._speed.note(seconds)
        self._next_turn = turn + 1

    def close(self) -> None:
        """Sync what is left, acks included, and end the thread. Callbacks still get their call."""
        if self._thread is not None:
            with self._lock:
                self._closing = True
                self._batch.with_acks = True
                self._wake.notify()
            self._thread.join()
        self._directory = None  # closed with the last reference

    # -- in the loop's thread

    def _sync_here(self, quiet: bool) -> None:
        """The turn is over: sync if there is nothing else to do, else leave it to the thread."""
        assert self._turns is not None
        count = self._turns.active_count
        with self._lock:
            if count > self._next_turn:
                self._speed.pause(SYNCS_AFTER_OTHERS)
                quiet = False
            if not (quiet and self._is_alone(self._batch)):
                self._wake.notify()
                return
            batch = self._take_batch()
        failure = self._synced(batch)
        self._next_turn = count + 1
        call_all(batch.callbacks, failure)

    def _is_alone(self, batch: Batch) -> bool:
        """Is it one small request, and nothing else is under way whose callback should come before?"""
        return len(batch.callbacks) == 1 and batch.is_small() and not self._busy and not self._handed_back

    def _call_all(self, callbacks: list[Callback], failure: CommitFailed | None) -> None:
        with self._lock:
            self._handed_back -= 1
        if self._turns is not None:
            self._next_turn = self._turns.active_count + 2
        call_all(callbacks, failure)

    # -- the thread

    def _run(self) -> None:
        failure: CommitFailed | None = None
        while failure is None:
            batch = self._next_batch()
            if batch is None:
                return
            failure = self._synced(batch)
            with self._lock:
                self._handed_back += bool(batch.callbacks)
                self._busy = False
            if batch.callbacks:
                self._call_back(batch.callbacks, failure)

    def _synced(self, batch: Batch) -> CommitFailed | None:
        """Sync a batch; the failure, after which there is no other."""
        small = batch.is_small()
        began = time.perf_counter()
        try:
            self._sync(batch)
        except Exception as error:
            failure = CommitFailed(f"syncing to disk failed: {error}")
            failure.__cause__ = error
            with self._lock:
                # Under the lock, so that no request slips in between the failure and the last batch.
                self.failure = failure
                batch.callbacks += self._batch.callbacks
                self._batch = Batch()
                self._wake.notify()
            return failure
        seconds = time.perf_counter() - began
        self.sync_times.observe(seconds)
        if small and batch.files:
            self._speed.note(seconds)
        return None

    def _next_batch(self) -> Batch | None:
        """Wait for a request, or for dirt that has waited long enough; None when it is time to end."""
        with self._lock:
            idle_rounds = 0
            while not (self._batch.callbacks or self._closing):
                if self.failure is not None:
                    return None
                if idle_rounds >= IDLE_ROUNDS and not self._batch.is_dirty():
                    self._asleep = True
                    self._wake.wait()
                    self._asleep = False
                    idle_rounds = 0
                elif not self._wake.wait(self._ack_sync_seconds_max):
                    if self._batch.is_dirty():
                        self._batch.with_acks = True
                        break
                    idle_rounds += 1
            if not (self._batch.callbacks or self._batch.is_dirty()):
                return None
            self._busy = True
            return self._take_batch()

    def _take_batch(self) -> Batch:
        """What there is to do, without acks that can wait; the next one begins."""
        batch, self._batch = self._batch, Batch()
        now = time.monotonic()
        if batch.with_acks or batch.everything or now >= self._acks_synced_at + self._ack_sync_seconds_max:
            self._acks_synced_at = now
        else:
            self._batch.acks, batch.acks = batch.acks, set()
        return batch

    def _sync(self, batch: Batch) -> None:
        if batch.everything or len(batch.files) + len(batch.acks) > FILES_SYNCED_SINGLY_MAX:
            assert self._directory is not None
            self.filesystem.sync_everything(self._directory)
            return
        for file in batch.files:
            self.filesystem.sync(file)
        for file in batch.acks:
            self.filesystem.sync(file)
        # A new file is safe only with its name; a new directory only with its own.
        for path in sorted(batch.directories, reverse=True):
            self._sync_directory(path)

    def _sync_directory(self, path: str) -> None:
        """This alone takes a descriptor, which clients may have used up. Nothing is lost by that: wait."""
        tries_left = TRIES_WHEN_CLOSING
        told = False
        while True:
            try:
                self.filesystem.sync_directory(path)
                return
            except FileNotFoundError:
                return  # the queue was deleted meanwhile, and with it what should have been safe
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not tries_left:
                    raise
            if not told:
                told = True
                logger.error("cannot sync %s: too many open files; publishers wait", path)
            tries_left -= self._closing
            time.sleep(DESCRIPTOR_WAIT_SECONDS)

    def _call_back(self, callbacks: list[Callback], failure: CommitFailed | None) -> None:
        try:
            self._call_soon_threadsafe(self._call_all, callbacks, failure)
        except RuntimeError:
            # The loop is closed: no callbacks any more.
            return


def call_all(callbacks: list[Callback], failure: CommitFailed | None) -> None:
    """Tell each, in order, whatever the others make of it."""
    for callback in callbacks:
        try:
            callback(failure)
        except Exception:  # the others wait as well
            logger.exception("a fault of ours in a callback after a sync: %r", callback)
