"""A file system that fails on request and knows what a power cut would leave of it.

Everything really happens on a real disk. Beside that, the shim keeps book of what was synced: for files their
content at the last sync, for directories the order of the changes to their names. `power_cut` then builds a
copy as the disk might have it: everything synced, plus arbitrary beginnings or pieces of what was not.

SQLite goes past the store's own layer and writes into the middle of files; it keeps book here through
`sqlite_files.watch`. Of its writes any that were not synced may be missing, or cut short.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable

from embermq.store.disk.filesystem import File, FileSystem

Change = dict[str, int | None]  # what happens at once to the names of a directory: name -> file, or gone
Write = tuple[int, bytes | None]  # bytes at a position; None: the file was cut, or stretched, to that size

SECTOR_BYTES = 512


class FaultyFileSystem(FileSystem):
    """`root` is what a power cut is simulated for; all paths used must lie in it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.space_left: int | None = None  # bytes until the disk is full
        self.write_bytes_max: int | None = None  # writes come out no longer than this
        self.failing_syncs = False
        self.cold = False  # nothing of it is in memory: whoever does not want to wait must have it fetched
        self.fetches = 0  # what was asked for so
        self.sync_calls = 0
        self.syncfs_calls = 0
        self.before_sync: Callable[[], None] | None = None
        self.before_unlink: Callable[[], object] | None = None
        self._lock = threading.RLock()
        self._serial = 0
        self._keys: dict[str, int] = {}  # path -> file
        self._synced: dict[int, bytes] = {}  # file -> content that is safe
        self._last_content: dict[int, bytes] = {}  # file -> content when its last name went
        self._safe_names: dict[str, dict[str, int]] = {
            root: {}
        }  # directory -> name -> file, or -1: directory
        self._changes: dict[str, list[Change]] = {root: []}  # since then
        self._writes: dict[int, list[Write]] = {}  # SQLite's file -> what it has not synced
        self._adopt(root)

    def _adopt(self, directory: str) -> None:
        """What is there already is safe. The lock needs no content, SQLite's shared memory is no file."""
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                self._safe_names[directory][entry.name] = -1
                self._safe_names[entry.path], self._changes[entry.path] = {}, []
                self._adopt(entry.path)
            elif entry.name != "LOCK" and not entry.name.endswith("-shm"):
                self._serial += 1
                self._safe_names[directory][entry.name] = self._keys[entry.path] = self._serial
                self._synced[self._serial] = _content(entry.path)

    # -- faults

    def is_cached(self, file: File, size: int, position: int) -> bool:
        self.fetches += self.cold
        return not self.cold

    def write_at(self, file: File, data: bytes | bytearray | memoryview, position: int) -> int:
        size = len(data)
        if self.write_bytes_max is not None:
            size = min(size, self.write_bytes_max)
        if self.space_left is not None:
            size = min(size, self.space_left)
            if size == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
            self.space_left -= size
        return super().write_at(file, memoryview(data)[:size], position)

    def write_synced(self, file: File, data: bytearray, size: int, position: int) -> int:
        """What it wrote is safe, and how long the file is; whatever else was written to it is not."""
        done = self.write_at(file, memoryview(data)[:size], position)
        self._count_sync()
        super().sync(file)
        with self._lock:
            key = self._keys.get(file.path)
            if key is not None:
                safe = bytearray(self._synced[key][: self.size(file)].ljust(self.size(file), b"\0"))
                safe[position : position + done] = memoryview(data)[:done]
                self._synced[key] = bytes(safe)
        return done

    def allocate(self, file: File, size: int) -> None:
        """A megabyte of zeros in every power cut would only take time."""

    def sync(self, file: File) -> None:
        self._count_sync()
        super().sync(file)
        with self._lock:
            key = self._keys.get(file.path)
            if key is not None:
                self._synced[key] = _content(file.path)

    def sync_directory(self, path: str) -> None:
        self._count_sync()
        with self._lock:
            super().sync_directory(path)
            self._settle(path, len(self._changes[path]))

    def sync_everything(self, directory: File) -> None:
        self.syncfs_calls += 1
        self._count_sync()
        super().sync_everything(directory)
        with self._lock:
            for path, key in self._keys.items():
                self._synced[key] = _content(path)
                if key in self._writes:
                    self._writes[key] = []
            for path in list(self._changes):
                self._settle(path, len(self._changes[path]))

    def _count_sync(self) -> None:
        if self.before_sync is not None:
            self.before_sync()
        self.sync_calls += 1
        if self.failing_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    # -- keeping book of names

    def open(self, path: str, create: bool = False, writable: bool = True) -> File:
        with self._lock:
            file = super().open(path, create, writable)
            if create:
                self._serial += 1
                self._keys[path] = self._serial
                self._synced[self._serial] = b""
                self._note(path, self._serial)
            return file

    def unlink(self, path: str) -> None:
        if self.before_unlink is not None:
            self.before_unlink()
        with self._lock:
            content = _content(path)
            super().unlink(path)
            key = self._keys.pop(path, None)
            if key is not None:
                self._last_content[key] = content
                self._note(path, None)

    def link(self, old: str, new: str) -> None:
        with self._lock:
            super().link(old, new)
            self._keys[new] = self._keys[old]
            self._note(new, self._keys[old])

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            super().rename(old, new)
            if old in self._keys:
                self._keys[new] = self._keys.pop(old)
                assert os.path.dirname(old) == os.path.dirname(new)
                change = {os.path.basename(old): None, os.path.basename(new): self._keys[new]}
                self._changes[os.path.dirname(old)].append(change)
                return
            # A directory: it keeps what it holds, under another name.
            for table in (self._safe_names, self._changes):
                table[new] = table.pop(old)  # type: ignore[attr-defined]
            for path in [path for path in self._keys if path.startswith(old + os.sep)]:
                self._keys[new + path.removeprefix(old)] = self._keys.pop(path)
            self._note(old, None)
            self._note(new, -1)

    def make_directory(self, path: str) -> None:
        with self._lock:
            super().make_directory(path)
            self._safe_names[path] = {}
            self._changes[path] = []
            self._note(path, -1)

    def remove_directory(self, path: str) -> None:
        with self._lock:
            super().remove_directory(path)
            self._note(path, None)

    def _note(self, path: str, key: int | None) -> None:
        self._changes[os.path.dirname(path)].append({os.path.basename(path): key})

    def _settle(self, directory: str, count: int) -> None:
        self._safe_names[directory] = self._names_after(directory, self._changes[directory][:count])
        del self._changes[directory][:count]

    def _names_after(self, directory: str, changes: list[Change]) -> dict[str, int]:
        names = dict(self._safe_names[directory])
        for change in changes:
            for name, key in change.items():
                if key is None:
                    names.pop(name, None)
                else:
                    names[name] = key
        return names

    # -- SQLite's files (see sqlite_files.Book)

    def file_opened(self, path: str) -> None:
        with self._lock:
            if path not in self._keys:
                self._serial += 1
                self._keys[path] = self._serial
                self._synced[self._serial] = b""
                self._note(path, self._serial)
            self._writes.setdefault(self._keys[path], [])

    def file_written(self, path: str, data: bytes, position: int) -> None:
        with self._lock:
            self._writes[self._keys[path]].append((position, data))

    def file_truncated(self, path: str, size: int) -> None:
        with self._lock:
            self._writes[self._keys[path]].append((size, None))

    def about_to_sync(self) -> None:
        self._count_sync()

    def file_synced(self, path: str, with_names: bool) -> None:
        with self._lock:
            key = self._keys[path]
            self._synced[key] = _applied(self._synced[key], self._writes[key])
            self._writes[key] = []
            if with_names:
                self._settle(os.path.dirname(path), len(self._changes[os.path.dirname(path)]))

    def file_deleted(self, path: str, with_names: bool) -> None:
        with self._lock:
            del self._keys[path]
            self._note(path, None)
            if with_names:
                self._settle(os.path.dirname(path), len(self._changes[os.path.dirname(path)]))

    # -- the power cut

    def power_cut(self, target: str, chance: random.Random) -> None:
        """Write to `target` what the disk might hold if the power failed now."""
        with self._lock:
            contents = {key: _content(path) for path, key in self._keys.items()} | self._last_content
            self._copy(self.root, target, contents, chance)

    def _copy(self, directory: str, target: str, contents: dict[int, bytes], chance: random.Random) -> None:
        os.mkdir(target)
        changes = self._changes[directory]
        if chance.random() < 0.5:
            survived = changes[: chance.randint(0, len(changes))]
        else:
            # A file system that does not even keep the order.
            survived = [change for change in changes if chance.random() < 0.5]
        for name, key in self._names_after(directory, survived).items():
            path = os.path.join(target, name)
            if key == -1:
                below = os.path.join(directory, name)
                if below in self._changes:
                    self._copy(below, path, contents, chance)
                continue
            with open(path, "wb") as file:
                if key in self._writes:
                    file.write(_scattered(self._synced[key], self._writes[key], chance))
                else:
                    file.write(torn(self._synced[key], contents.get(key, b""), chance))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def torn(synced: bytes, written: bytes, chance: random.Random) -> bytes:
    """What may be left of a file that has changed since it was synced.

    It has the old size, the new one, or one between. Of what has changed there are the bytes up to some
    place; or those in some blocks and not in others, as a disk pleases that is free to choose. Where a change
    is missing stands what was synced, and zeros where nothing was: behind the old end, and in the room that a
    file has at its end.
    """
    if written == synced:
        return synced
    shorter, longer = sorted((len(synced), len(written)))
    size = chance.choice([shorter, longer, chance.randint(shorter, longer)])
    old, new = synced.ljust(longer, b"\0"), written.ljust(longer, b"\0")
    changed = [at for at in range(longer) if old[at] != new[at]] or [0]
    if chance.random() < 0.6:
        kept = chance.choice([*changed, longer])
        return (new[:kept] + old[kept:])[:size]
    block = chance.choice([16, 64, 512])
    pieces = [chance.choice([old, new])[at : at + block] for at in range(0, longer, block)]
    return b"".join(pieces)[:size]


def _scattered(synced: bytes, writes: list[Write], chance: random.Random) -> bytes:
    """The synced content and some of the writes behind it: the first ones, or any; some cut short."""
    if chance.random() < 0.5:
        survived = writes[: chance.randint(0, len(writes))]
    else:
        survived = [write for write in writes if chance.random() < 0.7]
    torn = []
    for position, data in survived:
        if data is not None and chance.random() < 0.1:
            data = data[: chance.randint(0, len(data) // SECTOR_BYTES) * SECTOR_BYTES]
        torn.append((position, data))
    return _applied(synced, torn)


def _applied(content: bytes, writes: list[Write]) -> bytes:
    result = bytearray(content)
    for position, data in writes:
        if data is None:
            del result[position:]
            result += bytes(position - len(result))
        elif data:
            result += bytes(max(0, position - len(result)))
            result[position : position + len(data)] = data
    return bytes(result)
