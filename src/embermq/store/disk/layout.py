"""Layout of a data directory: names of its files and folders.

    DIR/VERSION              "embermq data 1\\n"
    DIR/LOCK                 held by the running broker (see lock)
    DIR/reserve              room for acks when the disk is full (see reserve)
    DIR/definitions.sqlite   vhosts, users, exchanges, queues, ... (see definitions)
    DIR/definitions.commits  how many commits that has had (see commit_note)
    DIR/queues/<id>/         the log of one queue or stream (see log); made at its first write
    DIR/queues/<id>.<part>/  a further log of the same queue, for example of its urgent messages
    DIR/traces/              files that traces write (see http.trace_files); nothing that the broker needs
    DIR/trash/               directories of deleted queues that are still being deleted
    DIR/unclaimed/           directories that belong to no queue that is defined (see unclaimed)

An id is never used again, so a queue that is deleted and declared anew cannot meet its old messages, whatever
a power cut left behind.
"""

from __future__ import annotations

import hashlib
import os
import uuid

from embermq.store.disk.filesystem import FileSystem, write_all
from embermq.store.errors import NewerVersion, NotADataDirectory

VERSION = 1
VERSION_PREFIX = "embermq data "
LABEL = "queue.json"  # in a queue's directory: vhost, name and definition as they were at its first message
IDENTITIES_PART = ".ids"  # a log of a queue that holds no messages, but identities of such
TRANSIENT_PREFIX = "transient-"  # of ids: the queue ends with its broker, or before
DELAYED_PREFIX = "delayed-"  # of ids: what waits for a time, in one virtual host


class Layout:
    """The paths of one data directory. Making one touches nothing; `prepare` creates and checks."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self.version = os.path.join(self.directory, "VERSION")
        self.lock = os.path.join(self.directory, "LOCK")
        self.definitions = os.path.join(self.directory, "definitions.sqlite")
        self.queues = os.path.join(self.directory, "queues")
        self.trash = os.path.join(self.directory, "trash")
        self.reserve = os.path.join(self.directory, "reserve")
        self.unclaimed = os.path.join(self.directory, "unclaimed")

    def queue(self, queue_id: str) -> str:
        """The directory of a queue's log."""
        assert queue_id and os.sep not in queue_id and not queue_id.startswith("."), queue_id
        return os.path.join(self.queues, queue_id)

    def prepare(self, filesystem: FileSystem) -> None:
        """Make a new data directory, or check that this is one and that we can read it. Lock it first."""
        if filesystem.exists(self.version):
            self.check_version(filesystem)
        else:
            others = set(filesystem.list(self.directory)) - {"LOCK"}
            # "VERSION.new" alone is a first start that was interrupted; "lost+found" comes with a disk.
            if others - {"VERSION.new", "lost+found", "queues", "trash"}:
                raise NotADataDirectory(
                    f"{self.directory} is not empty and not a data directory of EmberMQ "
                    f"(it holds {', '.join(sorted(others)[:3])})"
                )
        for path in (self.queues, self.trash):
            if not filesystem.exists(path):
                filesystem.make_directory(path)
        if not filesystem.exists(self.version):
            self._write_version(filesystem)

    def check_version(self, filesystem: FileSystem) -> None:
        """Raise unless this is a data directory that we can read."""
        if not filesystem.exists(self.version):
            raise NotADataDirectory(f"{self.directory} is not a data directory of EmberMQ (no file VERSION)")
        file = filesystem.open(self.version, writable=False)
        text = filesystem.read_at(file, 64, 0).decode("ascii", "replace")
        number = text.removeprefix(VERSION_PREFIX).strip()
        if not text.startswith(VERSION_PREFIX) or not number.isdecimal():
            raise NotADataDirectory(f"{self.version} does not read '{VERSION_PREFIX}<number>'")
        if int(number) > VERSION:
            raise NewerVersion(
                f"{self.directory} has data version {number}; this EmberMQ reads up to version {VERSION}: "
                "start the newer EmberMQ that wrote it"
            )

    def queue_ids(self, filesystem: FileSystem) -> list[str]:
        """The ids of all queues that have a directory; hidden ones belong to file systems and backups."""
        names = filesystem.list(self.queues) if filesystem.exists(self.queues) else []
        return [name for name in names if not name.startswith(".")]

    def _write_version(self, filesystem: FileSystem) -> None:
        unfinished = self.version + ".new"
        if filesystem.exists(unfinished):
            filesystem.unlink(unfinished)
        file = filesystem.open(unfinished, create=True)
        write_all(filesystem, file, f"{VERSION_PREFIX}{VERSION}\n".encode(), 0)
        filesystem.sync(file)
        filesystem.rename(unfinished, self.version)
        filesystem.sync_directory(self.directory)


def new_queue_id(durable: bool = True) -> str:
    """The name marks files of a queue that is not durable: a start deletes them."""
    return uuid.uuid4().hex if durable else TRANSIENT_PREFIX + uuid.uuid4().hex


def owner_id(log_id: str) -> str:
    """The id of the queue that a directory belongs to."""
    return log_id.partition(".")[0]


def delayed_id(vhost: str) -> str:
    """What stands for a queue in the names of the logs of delayed messages."""
    digest = hashlib.sha256(vhost.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{DELAYED_PREFIX}{digest[:32]}"


def make_data_directory(directory: str) -> None:
    """Create the directory itself, and its parents; it may exist."""
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
    except OSError as error:
        why = "it is no directory" if isinstance(error, FileExistsError) else (error.strerror or "").lower()
        raise NotADataDirectory(f"{directory} cannot be the data directory: {why}") from None
