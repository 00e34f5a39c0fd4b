"""Everything of one data directory in one place, opened at start and closed at the end.

data = DataDirectory.open("/var/lib/embermq", loop.call_soon_threadsafe, sync="always")
log = data.open_log(queue_id)
log.append(log.next_sequence, now_ms, PERSISTENT, (header, body))      per message
log.write(); data.committer.mark_dirty(log)                            per turn and dirty log
data.committer.request(callback)                                       per turn
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from embermq.store.commit import Committer, SyncMode
from embermq.store.definitions import Definitions
from embermq.store.disk import Disk
from embermq.store.filesystem import FileSystem
from embermq.store.layout import Layout, make_data_directory
from embermq.store.lock import DirectoryLock
from embermq.store.log import SEGMENT_BYTES, Log
from embermq.store.page_cache import PageCache

logger = logging.getLogger("embermq.store")


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
            definitions = Definitions(
                layout.definitions,
                call_soon_threadsafe,
                synchronous=sync == "always",
                needed_for=layout.queues if layout.queue_ids(filesystem) else "",
            )
        except BaseException:
            lock.release()
            raise
        disk = Disk(filesystem, layout.trash, cache=PageCache(filesystem, call_soon_threadsafe))
        if sync == "os":
            disk.room_bytes = 0  # nobody waits for syncs
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

    def drop_orphans(self, known_ids: Iterable[str]) -> list[str]:
        """Delete the directories of queues that no definition names any more; answer their ids."""
        known = set(known_ids)
        filesystem, layout = self.disk.filesystem, self.layout
        orphans = [
            queue_id
            for queue_id in layout.queue_ids(filesystem)
            if queue_id not in known and filesystem.is_directory(layout.queue(queue_id))
        ]
        for queue_id in orphans:
            self.disk.drop_directory(self.layout.queue(queue_id))
        return orphans

    def sync_everything(self) -> None:
        """Once after recovery: what a killed process had written, and we now build on, may not be on disk."""
        directory = self.disk.filesystem.open_directory(self.layout.directory)
        self.disk.filesystem.sync_everything(directory)

    def free_bytes(self) -> int:
        return self.disk.filesystem.free_bytes(self.layout.directory)

    def close(self) -> None:
        """Sync what was written, finish what is under way, release the lock. Write the logs before."""
        self.committer.close()
        self.definitions.close()
        self.disk.close()
        self._lock.release()
