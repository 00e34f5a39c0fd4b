"""Definitions (vhosts, users, exchanges, queues, bindings, ...) in SQLite, committed in groups.

A definition is a JSON object under (kind, vhost, name). Changes are queued and committed by one thread, all
that is waiting in one transaction; a change's callback comes back to the loop's thread once it is safe, and
only then may the broker answer `-ok`. So ten thousand declarations cost a few hundred syncs.

    TABLE definition (kind TEXT, vhost TEXT, name TEXT, body TEXT, PRIMARY KEY (kind, vhost, name))
    PRAGMA user_version = 1, application_id = 0x454D4252 ("EMBR"), journal_mode = WAL, synchronous = FULL
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from embermq.store.callback import Callback, call_all
from embermq.store.failure import CommitFailed, NewerVersion, NotADataDirectory

logger = logging.getLogger("embermq.store")

VERSION = 1
RETRY_SECONDS = 1.0  # between attempts to write to a full disk
APPLICATION_ID = 0x454D4252
STOPPED = "stopped"  # a kind: there is one while nothing was written since an orderly stop

Body = dict[str, Any]


class Definition(NamedTuple):
    vhost: str
    name: str
    body: Body


class _Change(NamedTuple):
    key: tuple[str, str, str]
    body: str | None  # None: delete
    callback: Callback | None


class Definitions:
    """Belongs to the loop's thread; callbacks are called there, in the order of the changes."""

    def __init__(
        self,
        path: str,
        call_soon_threadsafe: Callable[..., object],
        synchronous: bool = True,
        needed_for: str = "",
    ) -> None:
        """A file that is not there is made, unless it is `needed_for` a directory with messages."""
        self.path = path
        self.failure: CommitFailed | None = None
        self.commits = 0
        self.idle = True  # everything asked for so far is safe
        self._call_soon_threadsafe = call_soon_threadsafe
        self._waiting: list[_Change] = []
        self._busy = False
        self._closing = False
        self._wake = threading.Condition()
        self._connection = _open(path, synchronous, needed_for)
        self._thread = threading.Thread(target=self._run, name="store-definitions", daemon=True)
        self._thread.start()

    def put(self, kind: str, vhost: str, name: str, body: Body, callback: Callback | None = None) -> None:
        """Write a definition, new or in place of the old."""
        text = json.dumps(body, separators=(",", ":"))
        self._add(_Change((kind, vhost, name), text, callback))

    def delete(self, kind: str, vhost: str, name: str, callback: Callback | None = None) -> None:
        """Remove a definition; it may be gone already."""
        self._add(_Change((kind, vhost, name), None, callback))

    def flush(self, callback: Callback) -> None:
        """Call back when everything asked for so far is safe."""
        self._add(_Change(("", "", ""), None, callback))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is asked for meanwhile is safe as a whole or not at all."""
        with self._wake:  # the thread takes nothing before we are done
            yield

    def all(self, kind: str) -> list[Definition]:
        """All definitions of a kind, in order of vhost and name; waits for changes under way."""
        with self._wake:
            while (self._waiting or self._busy) and self.failure is None:
                self._wake.wait()
            if self.failure is not None:
                raise self.failure
            with _told(self.path):
                return list(_read(self._connection, self.path, kind))

    def close(self) -> None:
        """Commit what is waiting and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        self._connection.close()

    def _add(self, change: _Change) -> None:
        "".join(change.key).encode()  # a key that is no Unicode must fail the caller, not the transaction
        with self._wake:
            if self.failure is None and not self._closing:
                self.idle = False
                self._waiting.append(change)
                self._wake.notify_all()
                return
        if change.callback is not None:
            failure = self.failure or CommitFailed("the definitions are closed")
            self._call_soon_threadsafe(change.callback, failure)

    # -- the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self.idle = not self._waiting
                self._wake.notify_all()
                while not self._waiting and not self._closing:
                    self._wake.wait()
                if not self._waiting:
                    return
                self._busy = True
                changes, self._waiting = self._waiting, []
            failure: CommitFailed | None = None
            try:
                while not self._committed(changes):
                    logger.error("cannot write to %s: the disk is full; who asked for it waits", self.path)
                    time.sleep(RETRY_SECONDS)
                self.commits += 1
            except Exception as error:
                failure = CommitFailed(f"writing {self.path} failed: {error}")
                failure.__cause__ = error
                with self._wake:
                    self.failure = failure
                    changes += self._waiting
                    self._waiting = []
                    self._busy = False
                    self.idle = True
                    self._wake.notify_all()
            callbacks = [change.callback for change in changes if change.callback is not None]
            if callbacks:
                try:
                    self._call_soon_threadsafe(call_all, callbacks, failure)
                except RuntimeError:
                    pass  # the loop is closed: nobody is left to be told
            if failure is not None:
                return

    def _committed(self, changes: list[_Change]) -> bool:
        """Commit; False when the disk is full, which is worth waiting for. Whoever asked waits meanwhile."""
        try:
            self._commit(changes)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or self._closing:
                raise
            return False
        return True

    def _commit(self, changes: list[_Change]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                if change.body is not None:
                    connection.execute(
                        "INSERT OR REPLACE INTO definition VALUES (?, ?, ?, ?)", (*change.key, change.body)
                    )
                elif change.key[0]:
                    connection.execute(
                        "DELETE FROM definition WHERE kind = ? AND vhost = ? AND name = ?", change.key
                    )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def read_definitions(path: str, kind: str) -> Iterator[Definition]:
    """The definitions of a kind out of a file that nobody writes, for the tools."""
    with _told(path), _copied(path) as connection:
        if _check_version(connection, path):
            yield from _read(connection, path, kind)


def definitions_damage(path: str, needed_for: str = "") -> str:
    """What is wrong with the file; empty when it is sound, or is not there and need not be."""
    try:
        if needed_for:
            _refuse_nothing(path, needed_for)
        elif not os.path.exists(path):
            return ""
        with _told(path), _copied(path) as connection:
            if _check_version(connection, path):
                _check_whole(connection, path, "integrity_check")
            elif needed_for:
                raise _nothing(path, "empty", needed_for)
    except NotADataDirectory as error:
        return str(error)
    return ""


def _read(connection: sqlite3.Connection, path: str, kind: str) -> Iterator[Definition]:
    rows = connection.execute(
        "SELECT vhost, name, body FROM definition WHERE kind = ? ORDER BY vhost, name", (kind,)
    )
    for vhost, name, body in rows:
        try:
            yield Definition(vhost, name, json.loads(body))
        except ValueError as error:
            raise NotADataDirectory(f"{path} is damaged: {kind} '{name}' cannot be read: {error}") from None


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """What SQLite meets in a file that it cannot make sense of, in words for people."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise NotADataDirectory(f"{path} cannot be read: {error}") from error


def _nothing(path: str, what: str, needed_for: str) -> NotADataDirectory:
    return NotADataDirectory(
        f"{path} is {what}, and nothing else says whose messages are in {needed_for}: "
        f"put it back, or move {needed_for} away to begin anew"
    )


def _refuse_nothing(path: str, needed_for: str) -> None:
    """Before SQLite makes a new file of it, and takes what is left of the old one (its WAL) away."""
    if not os.path.exists(path):
        raise _nothing(path, "missing", needed_for)
    if os.path.getsize(path) == 0:
        raise _nothing(path, "empty", needed_for)


@contextlib.contextmanager
def _copied(path: str) -> Iterator[sqlite3.Connection]:
    """A copy to read: opening the file itself would write beside it, and after a crash into it."""
    with tempfile.TemporaryDirectory(prefix="embermq-") as directory:
        copy = os.path.join(directory, "definitions.sqlite")
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        connection = sqlite3.connect(copy)
        try:
            yield connection
        finally:
            connection.close()


def _open(path: str, synchronous: bool, needed_for: str) -> sqlite3.Connection:
    if needed_for:
        _refuse_nothing(path, needed_for)
    with _told(path):
        # The thread writes, and the loop's thread reads while the thread is idle: never both at once.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        version = _check_version(connection, path)
        if version:
            # A queue that a damaged page kept from us would be taken for deleted, with its messages.
            _check_whole(connection, path, "quick_check")
        elif needed_for:
            raise _nothing(path, "empty", needed_for)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if synchronous else 'OFF'}")
        if version == 0:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE definition (kind TEXT NOT NULL, vhost TEXT NOT NULL, name TEXT NOT NULL, "
                "body TEXT NOT NULL, PRIMARY KEY (kind, vhost, name)) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: str) -> int:
    """The schema version, 0 for a new file."""
    with _told(path):
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if version and application != APPLICATION_ID:
        raise NotADataDirectory(f"{path} belongs to another program")
    if version > VERSION:
        raise NewerVersion(
            f"{path} has definitions version {version}; this EmberMQ reads up to version {VERSION}: "
            "start the newer EmberMQ that wrote it"
        )
    return version


def _check_whole(connection: sqlite3.Connection, path: str, check: str) -> None:
    with _told(path):
        found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}(3)")]
    if found != ["ok"]:
        raise NotADataDirectory(f"{path} is damaged: {'; '.join(found)}")
