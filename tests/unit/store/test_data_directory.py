"""The data directory: layout, version, lock; and the tools that look at it from outside."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from embermq.store.data_directory import DataDirectory
from embermq.store.definitions import Definitions
from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import Layout, new_queue_id
from embermq.store.disk.lock import DirectoryLock, held_for_reading
from embermq.store.errors import DirectoryLocked, NewerVersion, NotADataDirectory, StoreFailure
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.recovery.check import check_directory
from embermq.store.recovery.dump import dump_queue
from tests.unit.store.sync.test_committer import Loop

HOLD_LOCK = """
import sys
from embermq.store.disk.lock import DirectoryLock
DirectoryLock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_new_directory_is_prepared_and_an_old_one_accepted(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    layout.prepare(FileSystem())
    assert (tmp_path / "VERSION").read_text() == "embermq data 1\n"
    assert sorted(os.listdir(tmp_path)) == ["VERSION", "queues", "trash"]
    layout.prepare(FileSystem())


def test_a_first_start_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "VERSION.new").write_text("emb")
    (tmp_path / "LOCK").write_text("")
    (tmp_path / "queues").mkdir()
    Layout(str(tmp_path)).prepare(FileSystem())
    assert (tmp_path / "VERSION").read_text() == "embermq data 1\n"


def test_directories_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(NotADataDirectory, match=r"thesis\.txt"):
        Layout(str(tmp_path)).prepare(FileSystem())
    assert os.listdir(tmp_path) == ["thesis.txt"]
    (tmp_path / "VERSION").write_text("something else")
    with pytest.raises(NotADataDirectory, match="does not read"):
        Layout(str(tmp_path)).prepare(FileSystem())
    (tmp_path / "VERSION").write_text("embermq data 7\n")
    with pytest.raises(NewerVersion, match="data version 7"):
        Layout(str(tmp_path)).prepare(FileSystem())


def test_two_processes_cannot_hold_one_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "LOCK")
    command = [sys.executable, "-c", HOLD_LOCK, path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=f"in use by process {holder.pid}"):
            DirectoryLock(path)
        holder.kill()
    # Killed, not closed: the lock is free all the same.
    lock = DirectoryLock(path)
    with pytest.raises(DirectoryLocked):
        DirectoryLock(path)
    lock.release()
    DirectoryLock(path).release()


def test_who_deletes_the_lock_file_does_not_let_a_second_broker_in(tmp_path: Path) -> None:
    """As people do who know it from elsewhere."""
    path = str(tmp_path / "LOCK")
    lock = DirectoryLock(path)
    os.unlink(path)
    with pytest.raises(DirectoryLocked, match=f"{tmp_path} is in use by another process"):
        DirectoryLock(path)
    os.unlink(path)
    with pytest.raises(DirectoryLocked, match="stop that broker first"), held_for_reading(path):
        pass
    lock.release()
    DirectoryLock(path).release()
    with held_for_reading(path), pytest.raises(DirectoryLocked):
        DirectoryLock(path)


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    """Two queues, one of them damaged, and an orphan."""
    layout = Layout(str(tmp_path))
    layout.prepare(FileSystem())
    disk = Disk(FileSystem(), layout.trash)
    definitions = Definitions(layout.definitions, lambda function, *args: None)
    for name in ("good", "bad", "orphan", "empty"):
        queue_id = f"{name}-{new_queue_id()}"
        if name != "orphan":
            definitions.put("queue", "/", name, {"id": queue_id})
        log = Log.open(layout.queue(queue_id), disk, segment_bytes=1000)
        for number in range(0 if name == "empty" else 40):
            log.append(number, 5, PERSISTENT, (b"%s %d" % (name.encode(), number), b"x" * 20))
        log.ack_many(range(10))
        log.write()
        if name == "good":
            log = Log.open(layout.queue(queue_id + ".high"), disk)
            log.append(5, 5, PERSISTENT, (b"urgent",))
            log.write()
    definitions.close()
    disk.wait_deleted()
    (bad,) = (tmp_path / "queues").glob("bad-*")
    second = sorted(bad.glob("*.segment"))[1]
    data = bytearray(second.read_bytes())
    data[70] ^= 1
    second.write_bytes(data)
    return tmp_path


def listing(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_check_reports_and_changes_nothing(data_directory: Path) -> None:
    good, high = sorted((data_directory / "queues").glob("good-*"))
    with max(good.glob("*.segment")).open("ab") as file:
        file.write(b"torn")
    before = listing(data_directory / "queues")
    bad, good_report, high_report, orphan = check_directory(str(data_directory))
    assert listing(data_directory / "queues") == before
    assert (bad.vhost, bad.name, bad.messages, bad.sound) == ("/", "bad", 29, False)
    assert (good_report.name, good_report.messages, good_report.sound) == ("good", 30, True)
    assert good_report.torn_bytes == 4
    assert good_report.message_bytes == sum(len(b"good %d" % number) + 20 for number in range(10, 40))
    assert good_report.bytes_on_disk == sum(path.stat().st_size for path in good.iterdir())
    assert good_report.segments == len(list(good.glob("*.segment")))
    assert (high_report.queue_id, high_report.name, high_report.messages) == (high.name, "good", 1)
    assert (orphan.vhost, orphan.messages) == (None, 30)
    assert "bytes lost (among sequences" in str(bad.damages[0])


def test_dump_gives_the_live_records(data_directory: Path) -> None:
    urgent, *records = dump_queue(str(data_directory), "/", "good")
    assert urgent.payload == b"urgent"
    assert [record.sequence for record in records] == list(range(10, 40))
    assert records[0].payload == b"good 10" + b"x" * 20
    assert len(list(dump_queue(str(data_directory), "/", "bad"))) == 29
    assert list(dump_queue(str(data_directory), "/", "empty")) == []
    (orphan,) = (data_directory / "queues").glob("orphan-*")
    assert len(list(dump_queue(str(data_directory), "/", orphan.name))) == 30
    with pytest.raises(StoreFailure, match="no queue 'other'"):
        list(dump_queue(str(data_directory), "/", "other"))


def test_check_says_why_a_newer_log_cannot_be_read(data_directory: Path) -> None:
    good, _ = sorted((data_directory / "queues").glob("good-*"))
    path = min(good.glob("*.segment"))
    data = bytearray(path.read_bytes())
    data[8] = 9
    data[36:40] = zlib.crc32(data[:36]).to_bytes(4, "little")
    path.write_bytes(data)
    report = next(report for report in check_directory(str(data_directory)) if report.name == "good")
    assert "format version 9" in report.refused
    assert not report.sound


def test_a_data_directory_from_opening_to_reopening(tmp_path: Path) -> None:
    loop = Loop()
    path = str(tmp_path / "new" / "data")
    data = DataDirectory.open(path, loop.call_soon_threadsafe)
    with pytest.raises(DirectoryLocked):
        DataDirectory.open(path, loop.call_soon_threadsafe)
    data.definitions.put("queue", "/", "q", {"id": "one"})
    for queue_id in ("one", "two"):
        log = data.open_log(queue_id)
        log.append(0, 0, PERSISTENT, (queue_id.encode(),))
        log.write()
        data.committer.mark_dirty(log)
    results: list[Exception | None] = []
    data.committer.request(results.append)
    loop.run_one()
    assert results == [None]
    assert data.free_bytes() > 0
    data.close()

    data = DataDirectory.open(path, loop.call_soon_threadsafe, sync="os")
    data.sort_out([str(definition.body["id"]) for definition in data.definitions.all("queue")])
    assert sorted(os.listdir(data.layout.queues)) == ["one"]
    assert sorted(os.listdir(data.layout.unclaimed)) == ["two"]
    assert [record.payload for record in data.open_log("one").read(0)] == [b"one"]
    data.close()
    assert os.listdir(tmp_path / "new" / "data" / "trash") == []


def test_a_directory_that_is_refused_is_not_kept_locked(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("embermq data 7\n")
    for _ in range(2):
        with pytest.raises(NewerVersion):
            DataDirectory.open(str(tmp_path), lambda *args: None)


@pytest.mark.parametrize("left", [None, b""])
def test_messages_without_definitions_are_nothing_to_begin_with(tmp_path: Path, left: bytes | None) -> None:
    """A start that took them for a first one would, at the next, delete what nobody defines any more."""
    with_messages(tmp_path)
    wal = tmp_path / "definitions.sqlite-wal"
    wal.write_bytes(b"perhaps there is something in it")
    definitions = tmp_path / "definitions.sqlite"
    definitions.unlink()
    if left is not None:
        definitions.write_bytes(left)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NotADataDirectory, match=r"sqlite is (missing|empty), and nothing"):
        DataDirectory.open(str(tmp_path), Loop().call_soon_threadsafe)
    assert sorted(tmp_path.rglob("*")) == before
    assert wal.stat().st_size > 0


def test_a_database_without_definitions_is_no_better(tmp_path: Path) -> None:
    with_messages(tmp_path)
    definitions = tmp_path / "definitions.sqlite"
    definitions.unlink()
    connection = sqlite3.connect(definitions)
    connection.execute("CREATE TABLE something (else_ TEXT)")
    connection.close()
    with pytest.raises(NotADataDirectory, match=r"definitions\.sqlite is empty"):
        DataDirectory.open(str(tmp_path), Loop().call_soon_threadsafe)


def test_what_is_no_queue_is_left_alone(tmp_path: Path) -> None:
    """Notes somebody made, what a file system or a backup keeps in every directory."""
    with_messages(tmp_path)
    (tmp_path / "queues" / "README").write_text("do not touch")
    (tmp_path / "queues" / ".snapshot").mkdir()
    assert [report.messages for report in check_directory(str(tmp_path))] == [1]
    data = DataDirectory.open(str(tmp_path), Loop().call_soon_threadsafe)
    data.sort_out([])
    data.close()
    assert sorted(os.listdir(tmp_path / "queues")) == [".snapshot", "README"]
    (report,) = check_directory(str(tmp_path))
    assert report.unclaimed == str(tmp_path / "unclaimed" / report.queue_id)


@pytest.mark.parametrize("name", ["segment", "acks"])
def test_who_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    log = Log.open(str(tmp_path), Disk(FileSystem(), ""))
    for sequence in (1, 2):
        log.append(sequence, 0, PERSISTENT, (b"precious",))
    log.write()
    log.ack(1)
    log.write()
    (path,) = tmp_path.glob(f"*.{name}")
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError, match=path.name):
        Log.open(str(tmp_path), Disk(FileSystem(), ""))


def test_what_we_may_not_look_at_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a queue would be empty, and a data directory none."""

    def stat(path: object, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with_messages(tmp_path)
    monkeypatch.setattr(os, "stat", stat)
    filesystem = FileSystem()
    with pytest.raises(PermissionError, match="VERSION"):
        Layout(str(tmp_path)).check_version(filesystem)
    with pytest.raises(PermissionError):
        Log.open(str(tmp_path / "queues" / "id"), Disk(filesystem, ""))


def with_messages(directory: Path) -> None:
    data = DataDirectory.open(str(directory), Loop().call_soon_threadsafe)
    log = data.open_log(new_queue_id())
    log.append(1, 0, PERSISTENT, (b"precious",))
    log.write()
    data.close()
