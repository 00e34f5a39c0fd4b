"""The disk, shared by all logs of a data directory: the file system, a bounded set of open files, the trash.

Ten thousand queues must not need ten thousand descriptors: `open_file` keeps the most recently used ones.
Deleting is slow (a file system frees blocks while we wait), so it happens in a thread of its own: a segment
goes there as soon as it is fully acked, a whole queue is renamed into the trash directory there first.
`close` waits for segments and for that; what is in the trash then is left to the next start.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.disk.page_cache import PageCache
from embermq.store.disk.reserve import Reserve
from embermq.store.disk.worker import Background

FILES_OPEN_MAX = 256
FILES_PART = 16  # and at most this part of the files that the process may have open
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
BUFFERS_KEPT_MAX = 16
BUFFERS_KEPT_BYTES_MAX = 4 * 1024 * 1024  # all together
BUFFER_BYTES_MIN = 4096
ROOM_BYTES = 64 * 1024  # by which a file may run ahead of what it holds (see room)


class Disk:
    """Made once per data directory; what takes long happens in threads of its own."""

    def __init__(
        self,
        filesystem: FileSystem,
        trash: str,
        files_open_max: int = FILES_OPEN_MAX,
        cache: PageCache | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        self.filesystem = filesystem
        self.cache = cache or PageCache(filesystem)
        self.trash = trash
        self.reserve = reserve  # None: a full disk has no room for acks, either
        soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft_limit != resource.RLIM_INFINITY:
            files_open_max = min(files_open_max, max(1, soft_limit // FILES_PART))
        self.files_open_max = files_open_max
        self.room_bytes = ROOM_BYTES  # 0: files are as long as what they hold
        self._files: OrderedDict[str, File] = OrderedDict()
        self._last: File | None = None  # of these, the one used last
        self._last_user: object = None  # the caller that will ask for it again, if known
        # What cannot be deleted now is deleted at the next start: by then it is acked or in the trash.
        self._deletions = Background("store-trash")
        self.dropping: set[str] = set()  # directories that are to move into the trash
        self._closing = threading.Event()  # what is in the trash stays there
        self._buffer: bytearray | None = None  # a small one at hand
        self._buffers: list[bytearray] = []
        self._buffers_bytes = 0
        self._serial = itertools.count(1)

    # -- open files

    def open_file(self, path: str, create: bool = False) -> File:
        """The file of that path, opened if need be. Hold on to it only as long as it is in use."""
        file = self._last
        if file is not None and file.path == path:
            return file
        files = self._files
        file = files.get(path)
        if file is None:
            try:
                file = self.filesystem.open(path, create=create)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not files:
                    raise
                self.close_files()  # those that are only kept: connections may have taken the others
                file = self.filesystem.open(path, create=create)
            files[path] = file
            if len(files) > self.files_open_max:
                files.popitem(last=False)
        else:
            files.move_to_end(path)
        self._last = file
        self._last_user = None
        return file

    def used_by(self, user: object) -> None:
        """The file that was opened last is this one's."""
        self._last_user = user

    def file_of(self, user: object) -> File | None:
        """Its file, if no other was used since it said so."""
        return self._last if self._last_user is user else None

    def forget_file(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is self._last:
            self._last = self._last_user = None

    def close_files(self) -> None:
        """All that are not in use."""
        self._files.clear()
        self._last = self._last_user = None

    def make_directory(self, path: str) -> None:
        """It may be there already."""
        with contextlib.suppress(FileExistsError):
            self.filesystem.make_directory(path)

    # -- buffers

    def take_buffer(self) -> bytearray:
        """Somewhere to collect records until they are written. Lent, because most logs are idle."""
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            return buffer
        if not self._buffers:
            return bytearray(BUFFER_BYTES_MIN)
        buffer = self._buffers.pop()
        self._buffers_bytes -= len(buffer)
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        size = len(buffer)
        if self._buffer is None and size <= BUFFER_BYTES_MIN:
            self._buffer = buffer
        elif len(self._buffers) < BUFFERS_KEPT_MAX and self._buffers_bytes + size <= BUFFERS_KEPT_BYTES_MAX:
            self._buffers.append(buffer)
            self._buffers_bytes += size

    # -- deleting

    def delete_segment(self, path: str, ack_path: str) -> None:
        """Unlink a segment and then its ack file, in the background."""
        self.forget_file(path)
        self.forget_file(ack_path)
        self._deletions.put(partial(self._delete_segment, path, ack_path))

    def drop_directory(self, path: str) -> None:
        """Delete a directory with all its files, in the background. It must not be in use."""
        self.dropping.add(path)
        self._deletions.put(partial(self._drop_directory, path))

    def when_deleted(self, action: Callable[[], object]) -> None:
        """Call it, in the background, when everything asked for so far is deleted."""
        self._deletions.put(action)

    def empty_trash(self) -> None:
        """At start-up: delete what the last run had no time for."""
        if self.filesystem.exists(self.trash):
            for name in self.filesystem.list(self.trash):
                self._deletions.put(partial(self._delete, os.path.join(self.trash, name)))

    def wait_deleted(self) -> None:
        """Return when everything asked for so far is deleted."""
        self._deletions.wait()

    def close(self) -> None:
        """Close the files. Segments are deleted before that, whole queues are in the trash at least."""
        self._closing.set()
        self.cache.close()
        self._deletions.close()
        self.close_files()

    def _drop_directory(self, path: str) -> None:
        try:
            moved = self._move_to_trash(path)
        finally:
            self.dropping.discard(path)
        self._delete(moved)

    def _move_to_trash(self, path: str) -> str:
        """In one step: should we die now, no half of it is found where it was."""
        if not self.filesystem.exists(self.trash):
            self.filesystem.make_directory(self.trash)
        while True:
            target = os.path.join(self.trash, f"{os.path.basename(path)}-{next(self._serial)}")
            if not self.filesystem.exists(target):
                self.filesystem.rename(path, target)
                return target

    def _delete_segment(self, path: str, ack_path: str) -> None:
        # Acks without a segment are harmless, but a segment that comes back after a power cut needs its acks.
        self._delete(path)
        if self.filesystem.exists(ack_path):
            self.filesystem.sync_directory(os.path.dirname(path))
            self._delete(ack_path)

    def _delete(self, path: str) -> None:
        if not self.filesystem.is_directory(path):
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.unlink(path)
            return
        if self._closing.is_set():
            return
        for name in self.filesystem.list(path):
            self._delete(os.path.join(path, name))
            if self._closing.is_set():
                return
        self.filesystem.remove_directory(path)
