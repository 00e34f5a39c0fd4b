"""The thin layer between the store and the operating system.

Everything the store does to a disk goes through one `FileSystem`, so that the tests can put a shim in its
place which writes short, runs out of space, fails a sync, or remembers what a power cut would have left.
"""

from __future__ import annotations

import ctypes
import errno
import os

WRITE_BYTES_MAX = 0x7FFFF000  # Linux transfers no more than this in one call
SYNCED_WRITE = getattr(os, "RWF_DSYNC", 0)
PIECE_BYTES = 64 * 1024  # of what is read only to see that it is there


class File:
    """An open file that closes itself when the last reference is dropped.

    The commit thread may still sync a file that a log has already forgotten; a reference is all it needs.
    """

    __slots__ = ("__weakref__", "_close", "descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._close = os.close  # modules go before the last objects do, at the end of a process

    def __del__(self) -> None:
        self._close(self.descriptor)

    def __repr__(self) -> str:
        return f"File({self.path!r})"


class FileSystem:
    """The calls the store needs, each with the meaning of the system call of that name."""

    def open(self, path: str, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return File(path, os.open(path, flags, 0o640))

    def write_at(self, file: File, data: bytes | bytearray | memoryview, position: int) -> int:
        """Write some of `data`, answer how much: the caller writes the rest, as with pwrite."""
        return os.pwrite(file.descriptor, data, position)

    def write_synced(self, file: File, data: bytearray, size: int, position: int) -> int:
        """`write_at` of the first `size` bytes, and what was written is safe (it alone: what else the file
        holds need not be)."""
        with memoryview(data) as view, view[:size] as part:
            if SYNCED_WRITE:
                return os.pwritev(file.descriptor, (part,), position, SYNCED_WRITE)
            done = os.pwrite(file.descriptor, part, position)
        os.fdatasync(file.descriptor)
        return done

    def read_at(self, file: File, size: int, position: int) -> bytes:
        try:
            return os.pread(file.descriptor, size, position)
        except OSError as error:
            error.filename = file.path  # the call knows only a number
            raise

    def is_cached(self, file: File, size: int, position: int) -> bool:
        """Could that be read without waiting for the disk? Only reading it tells: pages come in any order."""
        if not hasattr(os, "RWF_NOWAIT"):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), file.path)
        end = position + size
        with memoryview(bytearray(min(size, PIECE_BYTES))) as piece:
            try:
                for at in range(position, end, PIECE_BYTES):
                    wanted = min(PIECE_BYTES, end - at)
                    if os.preadv(file.descriptor, [piece[:wanted]], at, os.RWF_NOWAIT) < wanted:
                        return False
            except BlockingIOError:
                return False
        return True

    def advise(self, file: File, size: int, position: int, wanted: bool) -> None:
        """That will be read soon (size 0: to the end); or not for long, and what is safe can leave memory."""
        if hasattr(os, "posix_fadvise"):
            advice = os.POSIX_FADV_WILLNEED if wanted else os.POSIX_FADV_DONTNEED
            os.posix_fadvise(file.descriptor, position, size, advice)

    def size(self, file: File) -> int:
        return os.fstat(file.descriptor).st_size

    def truncate(self, file: File, size: int) -> None:
        os.ftruncate(file.descriptor, size)

    def allocate(self, file: File, size: int) -> None:
        """Make the file so long, and have the disk keep the room."""
        os.posix_fallocate(file.descriptor, 0, size)

    def sync(self, file: File) -> None:
        os.fdatasync(file.descriptor)

    def sync_directory(self, path: str) -> None:
        """Make names in a directory (created, renamed, removed) survive a power cut."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open_directory(self, path: str) -> File:
        return File(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def sync_everything(self, directory: File) -> None:
        """syncfs: one call for all that is dirty in the file system that holds `directory`."""
        if _libc().syncfs(directory.descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), directory.path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def is_same(self, path: str, other: str) -> bool:
        """Are these two names of one file?"""
        return os.path.samefile(path, other)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, 0o750)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """What we may not look at is not taken for missing."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path) and not os.path.islink(path)

    def free_bytes(self, path: str) -> int:
        """What an ordinary user could still write there."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


def write_part(filesystem: FileSystem, file: File, data: bytearray, size: int, position: int) -> int:
    """Write some of the first `size` bytes; how many, at least one."""
    with memoryview(data) as view, view[: min(size, WRITE_BYTES_MAX)] as part:
        done = filesystem.write_at(file, part, position)
    if done <= 0:
        raise OSError(errno.EIO, "nothing was written", file.path)
    return done


def write_all(filesystem: FileSystem, file: File, data: bytes | bytearray, position: int) -> None:
    """Write all of `data`, however short the single writes come out."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            try:
                count = filesystem.write_at(file, view[done : done + WRITE_BYTES_MAX], position + done)
            except OSError as error:
                error.filename = file.path
                raise
            if count <= 0:
                raise OSError(errno.EIO, "nothing was written", file.path)
            done += count


def read_all(filesystem: FileSystem, file: File) -> bytes:
    """The whole file; only for files whose size is bounded (segments, ack files)."""
    return read_span(filesystem, file, filesystem.size(file), 0)


def read_span(filesystem: FileSystem, file: File, size: int, position: int) -> bytes:
    """`size` bytes at `position`, fewer only where the file ends."""
    block = filesystem.read_at(file, size, position)
    if len(block) == size or not block:
        return block
    pieces = [block]
    missing = size - len(block)
    while missing > 0:
        block = filesystem.read_at(file, missing, position + size - missing)
        if not block:
            break
        pieces.append(block)
        missing -= len(block)
    return b"".join(pieces)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
