"""A data directory: its lock, definitions, logs and committer, opened at start and closed at the end.

data = DataDirectory.open("/var/lib/embermq", loop.call_soon_threadsafe, sync="always")
log = data.open_log(queue_id)
log.append(log.next_sequence, now_ms, PERSISTENT, (header, body))      per message
log.write(); data.committer.mark_dirty(log)                            per turn and dirty log
data.committer.request(callback)                                       per turn
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial

from embermq.store.definitions import DELETING, Definitions
from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import Layout, make_data_directory, owner_id
from embermq.store.disk.lock import DirectoryLock
from embermq.store.disk.page_cache import PageCache
from embermq.store.disk.reserve import Reserve
from embermq.store.log.log import SEGMENT_BYTES, Log
from embermq.store.recovery.unclaimed import is_accounted_for, set_aside, undefined_ids
from embermq.store.sync.committer import Committer, SyncMode

logger = logging.getLogger("embermq.store")

START_BYTES = 64 * 1024  # SQLite's shared memory, and some pages


class DataDirectory:
    """Holds the lock, the definitions, the committer and the open files until `close`."""

    segment_bytes = SEGMENT_BYTES  # of logs opened from now on

    def __init__(
        self, layout: Layout, lock: DirectoryLock, disk: Disk, definitions: Definitions, committer: Committer
    ) -> None:
        self.layout = layout
        self.disk = disk
        self.definitions = definitions
        self.committer = committer
        self._lock = lock
        self._noted: list[str] = []  # deletions whose notes may go once the files are gone
        # While logs are opened at a start: the last broker stopped in order, so no write was cut off.
        self.whole = False

    @classmethod
    def open(
        cls,
        directory: str,
        call_soon_threadsafe: Callable[..., object],
        sync: SyncMode = "always",
        filesystem: FileSystem | None = None,
    ) -> DataDirectory:
        """Lock the directory, create or check it, and open what it holds; a StoreFailure says why not."""
        filesystem = filesystem or FileSystem()
        layout = Layout(directory)
        make_data_directory(layout.directory)
        lock = DirectoryLock(layout.lock)
        try:
            layout.prepare(filesystem)
            reserve = Reserve(filesystem, layout.reserve)
            needed_for = layout.queues if layout.queue_ids(filesystem) else ""
            definitions = reserve.wait_for_room(
                lambda: Definitions(
                    layout.definitions,
                    call_soon_threadsafe,
                    sync == "always",
                    needed_for,
                    filesystem,
                    reserve,
                ),
                START_BYTES,
            )
            reserve.fill()
        except BaseException:
            lock.release()
            raise
        disk = Disk(
            filesystem, layout.trash, cache=PageCache(filesystem, call_soon_threadsafe), reserve=reserve
        )
        if sync == "os":
            disk.room_bytes = 0  # no confirm waits for syncs
        disk.empty_trash()
        committer = Committer(filesystem, layout.directory, call_soon_threadsafe, sync)
        return cls(layout, lock, disk, definitions, committer)

    def open_log(
        self,
        queue_id: str,
        segment_bytes: int | None = None,
        keep_place: bool = False,
        indexed: bool = False,
    ) -> Log:
        """Open or begin the log of a queue. Look at `log.recovery.damages` afterwards."""
        log = Log.open(
            self.layout.queue(queue_id),
            self.disk,
            segment_bytes or self.segment_bytes,
            keep_place=keep_place,
            indexed=indexed,
            whole=self.whole,
        )
        if log.recovery.torn_bytes:
            logger.info(
                "%s: the last write was cut off, %d bytes are dropped (nothing in them was confirmed)",
                log.directory,
                log.recovery.torn_bytes,
            )
        return log

    def sort_out(self, known_ids: Collection[str]) -> None:
        """After all logs are opened: finish deletions, and set aside what no definition accounts for."""
        filesystem, layout = self.disk.filesystem, self.layout
        owners = {owner_id(log_id) for log_id in known_ids}
        deleted = {note.name for note in self.definitions.all(DELETING)}
        unknown = []
        dropping = set(self.disk.dropping)  # before we look: what is not here any more is not there, either
        for log_id in undefined_ids(filesystem, layout, known_ids):
            if layout.queue(log_id) in dropping:
                continue
            if is_accounted_for(filesystem, layout, log_id, owners, deleted):
                self.disk.drop_directory(layout.queue(log_id))
            else:
                unknown.append(log_id)
        set_aside(filesystem, layout, unknown)
        there = owners.union(known_ids)
        for queue_id in deleted & there:
            self.definitions.delete(DELETING, "", queue_id)  # the deletion itself never came to the disk
        self._noted += deleted - there

    def note_deletions(self, ids: Iterable[str]) -> None:
        """The files of these are about to be dropped: should we die before, a start knows why."""
        for queue_id in ids:
            self.definitions.put(DELETING, "", queue_id, {})
            self._noted.append(queue_id)

    def forget_deletions(self) -> None:
        """Now and then: notes go behind the files that they are about, in the background."""
        if self._noted:
            ids, self._noted = self._noted, []
            self.disk.when_deleted(partial(self._forget_deletions, ids))

    def _forget_deletions(self, ids: list[str]) -> None:
        layout, filesystem = self.layout, self.disk.filesystem
        left = set(layout.queue_ids(filesystem))
        left |= {owner_id(log_id) for log_id in left}
        filesystem.sync_directory(layout.queues)
        for queue_id in ids:
            if queue_id not in left:  # what could not be deleted is tried again at the next start
                self.definitions.delete(DELETING, "", queue_id)

    def sync_everything(self) -> None:
        """Once after recovery: what a killed process had written, and we now build on, may not be on disk."""
        directory = self.disk.filesystem.open_directory(self.layout.directory)
        self.disk.filesystem.sync_everything(directory)

    def refill_reserve(self) -> None:
        """No caller waits for the disk."""
        if self.disk.reserve is not None:
            self.disk.reserve.fill()

    def free_bytes(self) -> int:
        return self.disk.filesystem.free_bytes(self.layout.directory)

    def close(self) -> None:
        """Sync what was written, finish what is under way, release the lock. Write the logs before."""
        self.committer.close()
        self.definitions.close()
        self.disk.close()
        self._lock.release()
