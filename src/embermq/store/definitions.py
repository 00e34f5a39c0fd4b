"""Definitions (vhosts, users, exchanges, queues, bindings, ...) in SQLite, committed in groups.

A definition is a JSON object under (kind, vhost, name). Changes are queued and committed by one thread, all
that is waiting in one transaction; a change's callback comes back to the loop's thread once it is safe, and
only then may the broker answer `-ok`. So ten thousand declarations cost a few hundred syncs.

    TABLE definition (kind TEXT, vhost TEXT, name TEXT, body TEXT, PRIMARY KEY (kind, vhost, name))
    PRAGMA user_version = 2, application_id = 0x454D4252 ("EMBR"), journal_mode = WAL, synchronous = FULL

Every commit counts itself, and keeps what the rows add up to, in a row of its own (kind "commits"); the same
is noted beside the database (see commit_note). Rows that do not add up, or fewer commits than were noted, are
refused: definitions that are missing would leave queues full of messages unclaimed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from embermq.store.commit_note import SUM_MASK, CommitNote, Commits, lost_note, read_note, row_hash
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.reserve import Reserve
from embermq.store.errors import CommitFailed, DefinitionsBehind, NewerVersion, NotADataDirectory
from embermq.store.sync.committer import Callback, call_all

logger = logging.getLogger("embermq.store")

VERSION = 2  # 1: without the row that counts commits
RETRY_SECONDS = 1.0  # between attempts to write to a full disk
NOTE_SYNC_SECONDS = 1.0  # by which the note of the commits may be behind after a power cut
APPLICATION_ID = 0x454D4252
STOPPED = "stopped"  # a kind: there is one while nothing was written since an orderly stop
DELETING = "deleting"  # a kind: the files of that id are on their way out
COMMITS = "commits"  # a kind: the one row that every commit writes

NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)

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
        filesystem: FileSystem | None = None,
        reserve: Reserve | None = None,
        accept_loss: bool = False,
    ) -> None:
        """A file that is not there is made, unless it is `needed_for` a directory with messages.

        One that has lost commits is refused (`DefinitionsBehind`), unless what is left is to be accepted.
        """
        filesystem = filesystem or FileSystem()
        self.path = path
        self.failure: CommitFailed | None = None
        self.commits = 0
        self.idle = True  # everything asked for so far is safe
        self._reserve = reserve
        self._call_soon_threadsafe = call_soon_threadsafe
        self._waiting: list[_Change] = []
        self._busy = False
        self._closing = False
        self._wake = threading.Condition()
        _verify(path, filesystem, needed_for, accept_loss)
        self._connection = _open(path, synchronous)
        self._commits = _counted(self._connection, read_note(path, filesystem), accept_loss)
        self._note = CommitNote(path, filesystem, synchronous)
        self._note_synced_at = time.monotonic()
        if accept_loss:
            self._commit([])
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
        self._note.close()
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
                    if not self._wake.wait(NOTE_SYNC_SECONDS if self._note.unsynced else None):
                        break
                if not self._waiting and self._closing:
                    return
                self._busy = True
                changes, self._waiting = self._waiting, []
            if self._note.unsynced and time.monotonic() >= self._note_synced_at + NOTE_SYNC_SECONDS:
                self._note.sync()
                self._note_synced_at = time.monotonic()
            if not changes:
                continue
            failure: CommitFailed | None = None
            try:
                while not self._committed(changes):
                    logger.error("cannot write to %s: the disk is full; clients wait for it", self.path)
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
                    pass  # the loop is closed: no callbacks any more
            if failure is not None:
                return

    def _committed(self, changes: list[_Change]) -> bool:
        """Commit; False when the disk is full, which is worth waiting for. Requests wait meanwhile."""
        while True:
            try:
                self._commit(changes)
                return True
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in NO_ROOM:
                    raise
                if self._reserve is None or not may_use_reserve(changes) or not self._reserve.release():
                    if self._closing:
                        raise
                    return False

    def _commit(self, changes: list[_Change]) -> None:
        """All of them or none; and behind that the note of it."""
        if changes and not any(change.key[0] for change in changes):
            return  # nothing but callbacks
        connection, before = self._connection, self._commits
        connection.execute("BEGIN IMMEDIATE")
        try:
            total = before.sum
            for change in changes:
                if change.key[0]:
                    total += _changed(connection, change)
            after = Commits(before.identity, before.count + 1, total & SUM_MASK)
            connection.execute(PUT, (COMMITS, "", "", json.dumps(_commits_body(after))))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._commits = after
        self._note.write(after)


PUT = "INSERT OR REPLACE INTO definition VALUES (?, ?, ?, ?)"
OF_KEY = "WHERE kind = ? AND vhost = ? AND name = ?"


def may_use_reserve(changes: list[_Change]) -> bool:
    """Do they make room, or note that a broker began or stopped?"""
    return all(change.body is None or change.key[0] in (STOPPED, DELETING) for change in changes)


def _changed(connection: sqlite3.Connection, change: _Change) -> int:
    """Make a change; by how much it changes the sum of the rows."""
    old = connection.execute(f"SELECT body FROM definition {OF_KEY}", change.key).fetchone()
    difference = 0 if old is None else -row_hash(*change.key, old[0])
    if change.body is not None:
        connection.execute(PUT, (*change.key, change.body))
        difference += row_hash(*change.key, change.body)
    elif old is not None:
        connection.execute(f"DELETE FROM definition {OF_KEY}", change.key)
    return difference


def read_definitions(path: str, kind: str) -> Iterator[Definition]:
    """The definitions of a kind out of a file of a stopped broker, for the tools."""
    with _told(path), _copied(path) as connection:
        if _check_version(connection, path):
            yield from _read(connection, path, kind)


def definitions_damage(path: str, needed_for: str = "") -> NotADataDirectory | None:
    """What is wrong with the file; None when it is sound, or is not there and need not be."""
    try:
        if needed_for:
            _refuse_nothing(path, needed_for)
        elif not os.path.exists(path):
            return None
        with _told(path), _copied(path) as connection:
            if _check_version(connection, path):
                _check_whole(connection, path, "integrity_check")
                _check_commits(connection, path, read_note(path, FileSystem()))
            elif needed_for:
                raise _nothing(path, "empty", needed_for)
    except NotADataDirectory as error:
        return error
    return None


def definitions_doubt(path: str) -> str:
    """Why a file that is sound in itself may still be incomplete; empty if that is known."""
    if not os.path.exists(path):
        return ""
    with _told(path), _copied(path) as connection:
        counted = _check_version(connection, path) and _read_commits(connection) is not None
    return lost_note(path, FileSystem()) if counted else ""


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
        if error.sqlite_errorcode in NO_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path) from error
        raise NotADataDirectory(f"{path} cannot be read: {error}") from error


def _nothing(path: str, what: str, needed_for: str) -> NotADataDirectory:
    return DefinitionsBehind(
        f"{path} is {what}, and nothing else says whose messages are in {needed_for}", path
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


def _verify(path: str, filesystem: FileSystem, needed_for: str, accept_loss: bool) -> None:
    """Refuse a file that is damaged or has lost commits, and leave it with its WAL as it is."""
    if needed_for:
        _refuse_nothing(path, needed_for)
    note = read_note(path, filesystem)
    if not os.path.exists(path):
        if note is not None and not accept_loss:
            raise DefinitionsBehind(
                f"{path} is missing, although {note.count} commits to it were noted", path
            )
        return
    with _told(path):
        # Read-only: a connection that may write takes the WAL away when it is closed, with all that is behind
        # the place where it is damaged.
        connection = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
    try:
        if _check_version(connection, path):
            # A queue that a damaged page kept from us would be taken for unclaimed, with its messages.
            _check_whole(connection, path, "quick_check")
            if not accept_loss:
                _check_commits(connection, path, note)
            if _read_commits(connection) is not None and (doubt := lost_note(path, filesystem)):
                logger.warning("%s; a new one is begun", doubt)
        elif needed_for:
            raise _nothing(path, "empty", needed_for)
        elif note is not None and not accept_loss:
            raise DefinitionsBehind(f"{path} is empty, although {note.count} commits to it were noted", path)
    finally:
        connection.close()


def _check_commits(connection: sqlite3.Connection, path: str, note: Commits | None) -> None:
    """Has it everything that was committed?"""
    with _told(path):
        known = _read_commits(connection)
        total = _sum_of_rows(connection)
    if known is None:
        if note is not None:
            raise DefinitionsBehind(
                f"{path} has no count of its commits, although {note.count} were noted: "
                "it is an older copy, or was written to by an older EmberMQ",
                path,
            )
        return
    if total != known.sum:
        raise DefinitionsBehind(f"{path} is damaged: its rows are not those that were committed", path)
    if note is None:
        return
    if known.identity != note.identity:
        raise DefinitionsBehind(f"{path} is not the one that belongs here: it comes from elsewhere", path)
    if known.count < note.count:
        raise DefinitionsBehind(
            f"{path} has lost {note.count - known.count} of {note.count} commits: its log {path}-wal is "
            "damaged or missing, or an older copy was put in its place",
            path,
        )
    if known.count == note.count and known.sum != note.sum:
        raise DefinitionsBehind(f"{path} is not what was committed last: another copy is in its place", path)


def _read_commits(connection: sqlite3.Connection) -> Commits | None:
    row = connection.execute(f"SELECT body FROM definition {OF_KEY}", (COMMITS, "", "")).fetchone()
    try:
        body = {} if row is None else json.loads(row[0])
        return Commits(int(body["identity"], 16), int(body["count"]), int(body["sum"], 16))
    except (ValueError, KeyError, TypeError):
        return None


def _commits_body(commits: Commits) -> Body:
    return {
        "identity": f"{commits.identity:016x}",
        "count": commits.count,
        "sum": f"{commits.sum:016x}",
    }


def _sum_of_rows(connection: sqlite3.Connection) -> int:
    rows = connection.execute("SELECT kind, vhost, name, body FROM definition WHERE kind != ?", (COMMITS,))
    return sum(row_hash(*row) for row in rows) & SUM_MASK


def _counted(connection: sqlite3.Connection, note: Commits | None, accept_loss: bool) -> Commits:
    """Where counting goes on: of a new file, one of version 1, or one accepted as it is, with its rows."""
    known = _read_commits(connection)
    if known is not None and not accept_loss:
        return known
    identity = known.identity if known is not None else int.from_bytes(os.urandom(8), "little")
    count = max(known.count if known is not None else 0, note.count if note is not None else 0)
    return Commits(identity, count, _sum_of_rows(connection))


def _open(path: str, synchronous: bool) -> sqlite3.Connection:
    with _told(path):
        # The thread writes, and the loop's thread reads while the thread is idle: never both at once.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        version = _check_version(connection, path)
        with _told(path):
            _prepare(connection, version, synchronous)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, version: int, synchronous: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if synchronous else 'OFF'}")
    if version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        if version == 0:
            connection.execute(
                "CREATE TABLE definition (kind TEXT NOT NULL, vhost TEXT NOT NULL, name TEXT NOT NULL, "
                "body TEXT NOT NULL, PRIMARY KEY (kind, vhost, name)) WITHOUT ROWID"
            )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


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
