"""Unclaimed directories: those under DIR/queues that belong to no defined queue.

Some are accounted for: of a queue that ended with its broker (its id says so), of one that was deleted (there
is a note in the definitions, kind "deleting", written with the deletion), or without any message in them.
A start deletes these. All others are set aside as DIR/unclaimed/<id>, where no broker touches them: their
definitions were lost, and messages that were promised may be in them. (Or the broker was killed between the
first message to a new queue and its declaration: that cannot be told apart.) `embermq store adopt` brings
them back.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from embermq.store.disk.filesystem import FileSystem, read_all
from embermq.store.disk.layout import IDENTITIES_PART, LABEL, TRANSIENT_PREFIX, Layout, owner_id
from embermq.store.log.segment_file import ACK_SUFFIX, SEGMENT_SUFFIX

logger = logging.getLogger("embermq.store")

LABEL_BYTES_MAX = 1024 * 1024


class Label(NamedTuple):
    """What a directory says about its queue: how this was declared when its first message came."""

    vhost: str
    name: str
    definition: dict[str, Any]

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"


def undefined_ids(filesystem: FileSystem, layout: Layout, known_ids: Iterable[str]) -> list[str]:
    """The directories that no queue has; anything else than a directory is none of our business."""
    known = set(known_ids)
    return [
        log_id
        for log_id in layout.queue_ids(filesystem)
        if log_id not in known and filesystem.is_directory(layout.queue(log_id))
    ]


def is_accounted_for(
    filesystem: FileSystem,
    layout: Layout,
    log_id: str,
    known_owners: Collection[str],
    deleted: Collection[str],
) -> bool:
    """Is it known why no queue has this directory, so that it may be deleted?"""
    owner = owner_id(log_id)
    if log_id.startswith(TRANSIENT_PREFIX) or log_id in deleted or owner in deleted:
        return True
    if owner in known_owners and log_id.endswith(IDENTITIES_PART):
        return True  # of a queue that does not deduplicate any more
    kept = (SEGMENT_SUFFIX, ACK_SUFFIX)
    return not any(
        name.endswith(kept) or ".damaged-" in name for name in filesystem.list(layout.queue(log_id))
    )


def set_aside(filesystem: FileSystem, layout: Layout, log_ids: list[str]) -> None:
    """Move directories out of the way of brokers, and say so."""
    if log_ids and not filesystem.exists(layout.unclaimed):
        filesystem.make_directory(layout.unclaimed)
    for log_id in log_ids:
        path, target = layout.queue(log_id), os.path.join(layout.unclaimed, log_id)
        what = read_label(filesystem, path) or "no queue that is known"
        if filesystem.exists(target):
            logger.error("%s (%s) has no definition; it stays there, as there is a %s", path, what, target)
            continue
        filesystem.rename(path, target)
        logger.error("%s (%s) has no definition: it was set aside as %s", path, what, target)
    if log_ids:
        logger.error("'embermq store adopt %s' brings back what was set aside", layout.directory)


def unclaimed_ids(filesystem: FileSystem, layout: Layout) -> list[str]:
    """What was set aside, now or before."""
    if not filesystem.exists(layout.unclaimed):
        return []
    return [
        name
        for name in filesystem.list(layout.unclaimed)
        if not name.startswith(".") and filesystem.is_directory(os.path.join(layout.unclaimed, name))
    ]


def read_label(filesystem: FileSystem, directory: str) -> Label | None:
    """What a directory says about itself; older ones, and some after a power cut, say nothing."""
    try:
        file = filesystem.open(os.path.join(directory, LABEL), writable=False)
        if filesystem.size(file) > LABEL_BYTES_MAX:
            return None
        label = json.loads(read_all(filesystem, file))
        return Label(str(label["vhost"]), str(label["name"]), dict(label["definition"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
