"""Read-only verification of a data directory: every record of every log is read and checked.

Meant for a stopped broker; nothing is changed, not even a torn tail. The command line prints the reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from embermq.store.definitions import DELETING, STOPPED, read_definitions
from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import IDENTITIES_PART, Layout, delayed_id, owner_id
from embermq.store.errors import NewerVersion
from embermq.store.recovery.recovery import Damage, scan_directory
from embermq.store.recovery.unclaimed import Label, is_accounted_for, read_label, unclaimed_ids


@dataclass
class QueueReport:
    """What the directory of one queue holds."""

    queue_id: str  # of the directory; a queue with several logs has further ones named <id>.<part>
    vhost: str | None = None  # None: no definition names this directory
    name: str | None = None
    segments: int = 0
    messages: int = 0  # alive, as the broker would find them
    message_bytes: int = 0  # payload of these
    bytes_on_disk: int = 0
    torn_bytes: int = 0  # at the end of the last segment: a write that was cut off, nothing confirmed
    set_aside: list[str] = field(default_factory=list)  # files an earlier recovery moved out of the way
    damages: list[Damage] = field(default_factory=list)
    refused: str = ""  # why the log cannot be read at all
    unclaimed: str = ""  # where it is, if it belongs to no queue and nothing accounts for that
    label: Label | None = None  # what such a directory says about itself

    @property
    def sound(self) -> bool:
        return not self.damages and not self.refused


def check_directory(
    directory: str, filesystem: FileSystem | None = None, names_known: bool = True
) -> Iterator[QueueReport]:
    """Verify a data directory, one report per log in order of vhost and name; last those without a queue.

    Without `names_known` the definitions are not looked at: they may be what is damaged.
    """
    filesystem = filesystem or FileSystem()
    layout = Layout(directory)
    layout.check_version(filesystem)
    names = queue_names(layout, filesystem) if names_known else {}
    whole = names_known and stopped_in_order(layout, filesystem)
    ids = layout.queue_ids(filesystem)
    named = sorted((*names[owner_id(log_id)], log_id) for log_id in ids if owner_id(log_id) in names)
    for vhost, name, log_id in named:
        yield check_log(filesystem, layout.queue(log_id), log_id, vhost, name, whole)
    others, deleted = owners_but_queues(layout) if names_known else (set(), set())
    for log_id in ids:
        # Anything but a directory is not the broker's.
        if owner_id(log_id) not in names and filesystem.is_directory(layout.queue(log_id)):
            report = check_log(filesystem, layout.queue(log_id), log_id, whole=whole)
            if names_known and not (
                owner_id(log_id) in others or is_accounted_for(filesystem, layout, log_id, others, deleted)
            ):
                report.unclaimed = layout.queue(log_id)
                report.label = read_label(filesystem, report.unclaimed)
            yield report
    for log_id in unclaimed_ids(filesystem, layout):
        path = os.path.join(layout.unclaimed, log_id)
        report = check_log(filesystem, path, log_id)
        report.unclaimed, report.label = path, read_label(filesystem, path)
        yield report


def owners_but_queues(layout: Layout) -> tuple[set[str], set[str]]:
    """Ids of directories that belong to something else than a queue; and of those on their way out."""
    others = {note.name for note in read_definitions(layout.definitions, "departing")}
    others |= {delayed_id(vhost.name) for vhost in read_definitions(layout.definitions, "vhost")}
    return others, {note.name for note in read_definitions(layout.definitions, DELETING)}


def check_log(
    filesystem: FileSystem,
    directory: str,
    queue_id: str,
    vhost: str | None = None,
    name: str | None = None,
    whole: bool = False,
) -> QueueReport:
    """Verify the directory of one log; `whole` as for recovery."""
    report = QueueReport(queue_id, vhost, name)
    files = filesystem.list(directory)
    report.set_aside = [file for file in files if ".damaged-" in file]
    disk = Disk(filesystem, "")
    try:
        scans = scan_directory(disk, directory, files, keep_transient=False)
    except NewerVersion as refusal:
        report.refused = str(refusal)
        return report
    last = len(scans) - 1
    while last > 0 and scans[last].unborn and not (whole and scans[last].misses_something):
        last -= 1
    for at, scan in enumerate(scans):
        segment = scan.segment
        report.segments += 1
        if not queue_id.endswith(IDENTITIES_PART):
            report.messages += segment.live.count
            report.message_bytes += scan.live_bytes
        report.bytes_on_disk += scan.size - scan.room + scan.acks.size
        path = os.path.join(directory, segment.name)
        torn = at > last or (at == last and (scan.torn_tail or scan.unborn))
        if torn and not (whole and scan.misses_something):
            report.torn_bytes += scan.bytes_lost - scan.room
        elif not scan.sound:
            report.damages.append(Damage(path, "", segment.live.count, scan.bytes_lost, tuple(scan.lost)))
        if scan.acks.damaged:
            ack_path = os.path.join(directory, segment.ack_name)
            lost = max(scan.acks.entries_damaged, 1)
            report.damages.append(Damage(ack_path, "", segment.live.count, 0, acks_lost=lost))
    return report


def queue_names(layout: Layout, filesystem: FileSystem) -> dict[str, tuple[str, str]]:
    """(vhost, name) by queue id, out of the definitions: the body of a queue or stream names its "id"."""
    if not filesystem.exists(layout.definitions):
        return {}
    return {
        str(definition.body["id"]): (definition.vhost, definition.name)
        for definition in read_definitions(layout.definitions, "queue")
        if "id" in definition.body
    }


def stopped_in_order(layout: Layout, filesystem: FileSystem) -> bool:
    """Did the last broker write everything that it had to write, and say so?"""
    if not filesystem.exists(layout.definitions):
        return False
    return any(note.body.get("whole") for note in read_definitions(layout.definitions, STOPPED))
