"""What SQLite does to its files, seen from below: a shim in the virtual file system of the library itself.

Python's `sqlite3` and `ctypes` share one libsqlite3 in the process. The functions of its default file system
that open and delete files are replaced by ours, which call the old ones and tell a `Book` about it; files in
a directory with a book get a table of methods in which write, truncate, sync and close do the same. So a
simulated power cut knows of SQLite's files what it knows of all others: which writes were synced.

One thing is taken on trust, because it happens below this layer: with the first sync of a new journal or
WAL file SQLite syncs the directory, too (os_unix.c, UNIXFILE_DIRSYNC).
"""

from __future__ import annotations

import ctypes
import os
import sqlite3  # before ctypes looks for the library: it must be the same one
from typing import Protocol

OPEN_CREATE, OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_WAL = 0x4, 0x100, 0x800, 0x80000
JOURNALS = OPEN_MAIN_JOURNAL | OPEN_WAL
SQLITE_OK = 0


class Book(Protocol):
    """Is told before something happens to a file (`about_to_sync`), or right after."""

    def file_opened(self, path: str) -> None: ...
    def file_written(self, path: str, data: bytes, position: int) -> None: ...
    def file_truncated(self, path: str, size: int) -> None: ...
    def about_to_sync(self) -> None: ...
    def file_synced(self, path: str, with_names: bool) -> None: ...
    def file_deleted(self, path: str, with_names: bool) -> None: ...


_books: dict[str, Book] = {}  # by directory
_files: dict[int, tuple[str, int]] = {}  # open file -> path, flags

_write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_close = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_open = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,  # the path: not c_char_p, SQLite keeps this very pointer
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_int),
)
_delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)


class _Methods(ctypes.Structure):
    """sqlite3_io_methods; the functions behind xSync are only copied."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("close", _close),
        ("read", ctypes.c_void_p),
        ("write", _write),
        ("truncate", _truncate),
        ("sync", _sync),
        ("others", ctypes.c_void_p * 13),
    ]


class _FileSystem(ctypes.Structure):
    """The beginning of sqlite3_vfs."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("path_max", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("open", _open),
        ("delete", _delete),
    ]


class _Shim:
    """Installed once per process, and passing everything through where there is no book."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libsqlite3.so.0")
        library.sqlite3_libversion.restype = ctypes.c_char_p
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_FileSystem)
        # The address proves it: two copies of the library could be of the same version.
        with open("/proc/self/maps") as maps:
            loaded = {line.split()[-1] for line in maps if "libsqlite3" in line}
        assert len(loaded) == 1, f"Python has an SQLite of its own: {loaded}"
        assert library.sqlite3_libversion().decode() == sqlite3.sqlite_version
        system = library.sqlite3_vfs_find(None).contents
        old_open, old_delete = _copied(_open, system.open), _copied(_delete, system.delete)
        self.tables: dict[int, _Methods] = {}  # SQLite's table -> ours

        def shim_open(vfs: int, name: int | None, file: int, flags: int, out_flags: object) -> int:
            path = "" if name is None else ctypes.string_at(name).decode()
            book = _books.get(os.path.dirname(path))
            result: int = old_open(vfs, name, file, flags, out_flags)
            if book is not None and result == SQLITE_OK and flags & (OPEN_MAIN_DB | JOURNALS):
                methods = ctypes.c_void_p.from_address(file)  # the first member of every sqlite3_file
                if methods.value:
                    table = self.table(methods.value)
                    methods.value = ctypes.addressof(table)
                    _files[file] = path, flags
                    book.file_opened(path)
            return result

        def shim_delete(vfs: int, name: bytes, sync_directory: int) -> int:
            result: int = old_delete(vfs, name, sync_directory)
            book = _books.get(os.path.dirname(name.decode()))
            if book is not None and result == SQLITE_OK:
                book.file_deleted(name.decode(), bool(sync_directory))
            return result

        self.keep = (_open(shim_open), _delete(shim_delete), library)
        system.open, system.delete = self.keep[0], self.keep[1]

    def table(self, address: int) -> _Methods:
        if address in self.tables:
            return self.tables[address]
        old = _Methods.from_address(address)
        table = _Methods.from_buffer_copy(old)
        old_close, old_write = _copied(_close, old.close), _copied(_write, old.write)
        old_truncate, old_sync = _copied(_truncate, old.truncate), _copied(_sync, old.sync)

        def shim_close(file: int) -> int:
            _files.pop(file, None)
            result: int = old_close(file)
            return result

        def shim_write(file: int, data: int, size: int, position: int) -> int:
            path, _ = _files[file]
            result: int = old_write(file, data, size, position)
            book = _books.get(os.path.dirname(path))
            if book is not None and result == SQLITE_OK:
                book.file_written(path, ctypes.string_at(data, size), position)
            return result

        def shim_truncate(file: int, size: int) -> int:
            path, _ = _files[file]
            result: int = old_truncate(file, size)
            book = _books.get(os.path.dirname(path))
            if book is not None and result == SQLITE_OK:
                book.file_truncated(path, size)
            return result

        def shim_sync(file: int, flags: int) -> int:
            path, open_flags = _files[file]
            book = _books.get(os.path.dirname(path))
            if book is not None:
                book.about_to_sync()
            result: int = old_sync(file, flags)
            if book is not None and result == SQLITE_OK:
                book.file_synced(path, bool(open_flags & JOURNALS))
            return result

        table.close, table.write = _close(shim_close), _write(shim_write)
        table.truncate, table.sync = _truncate(shim_truncate), _sync(shim_sync)
        self.tables[address] = table
        self.tables[ctypes.addressof(table)] = table
        return table


def _copied(kind: type, function: object) -> object:
    """The function itself, not the place from which it was read and where another will stand."""
    return kind(ctypes.cast(function, ctypes.c_void_p).value)  # type: ignore[arg-type]


_installed: list[_Shim] = []


def watch(directory: str, book: Book) -> None:
    """Tell the book about everything that SQLite does in a directory from now on."""
    if not _installed:
        _installed.append(_Shim())
    _books[directory] = book


def forget(directory: str) -> None:
    _books.pop(directory, None)
