"""Dump of a stopped broker's queue: its records, read-only, damaged or not."""

from __future__ import annotations

import os
from collections.abc import Iterator

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import IDENTITIES_PART, Layout, owner_id
from embermq.store.errors import StoreFailure
from embermq.store.log.record import Record
from embermq.store.recovery.check import queue_names
from embermq.store.recovery.recovery import scan_directory
from embermq.store.recovery.salvage import salvage_all
from embermq.store.recovery.scan import live_records
from embermq.store.recovery.unclaimed import unclaimed_ids


def dump_queue(
    directory: str, vhost: str, queue: str, filesystem: FileSystem | None = None
) -> Iterator[Record]:
    """The live records of a queue, found by its name or by the id of its directory.

    Of a queue with several logs those of the named parts (urgent messages) come first, as they leave first.
    """
    filesystem = filesystem or FileSystem()
    layout = Layout(directory)
    layout.check_version(filesystem)
    paths = {log_id: os.path.join(layout.unclaimed, log_id) for log_id in unclaimed_ids(filesystem, layout)}
    paths |= {log_id: layout.queue(log_id) for log_id in layout.queue_ids(filesystem)}
    queue_id = queue
    if queue not in paths:  # an id is one even where the definitions are what is damaged
        ids = {name: queue_id for queue_id, name in queue_names(layout, filesystem).items()}
        if (vhost, queue) not in ids:
            raise StoreFailure(f"no queue '{queue}' in vhost '{vhost}' of {directory}")
        queue_id = ids[vhost, queue]
    parts = [log_id for log_id in paths if owner_id(log_id) == owner_id(queue_id)]
    for log_id in sorted(parts, reverse=True):  # .p012, .p003, and the one without a part last
        if not log_id.endswith(IDENTITIES_PART):
            yield from dump_log(filesystem, paths[log_id])


def dump_log(filesystem: FileSystem, directory: str) -> Iterator[Record]:
    """The live records of a log, in order, one segment in memory at a time."""
    scans = scan_directory(Disk(filesystem, ""), directory, filesystem.list(directory), keep_transient=False)
    for scan in scans:
        if scan.segment.live.count:
            path = os.path.join(directory, scan.segment.name)
            yield from live_records(salvage_all(filesystem, filesystem.open(path, writable=False)).data, scan)
