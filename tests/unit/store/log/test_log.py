"""The log against a simple model: whatever is done to it, it holds what the model holds."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT
from embermq.store.log.retention import retain
from embermq.store.log.segment_file import SEQUENCE_SPAN_MAX

Entry = tuple[int, int, bytes]  # timestamp, flags, payload


def contents(log: Log, first: int = 0, bytes_max: int = 500) -> dict[int, Entry]:
    """Everything alive in the log, read the way a queue reads it."""
    found: dict[int, Entry] = {}
    sequence = first
    while records := log.read(sequence, bytes_max):
        for record in records:
            assert record.sequence >= sequence
            found[record.sequence] = (record.timestamp_ms, record.flags, record.payload)
            sequence = record.sequence + 1
    return found


class LogMachine(RuleBasedStateMachine):
    """`live` is what the log must hold; `written` what a process that dies now leaves behind."""

    @initialize()
    def begin(self) -> None:
        self.root = tempfile.mkdtemp(prefix="embermq-log-")
        self.disk = Disk(FileSystem(), os.path.join(self.root, "trash"), files_open_max=2)
        self.live: dict[int, Entry] = {}
        self.written: dict[int, Entry] = {}
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(os.path.join(self.root, "log"), self.disk, segment_bytes=1500)

    def teardown(self) -> None:
        self.disk.close()
        shutil.rmtree(self.root, ignore_errors=True)  # the remover may still be at it

    @rule(
        gap=st.one_of(st.just(0), st.just(0), st.integers(1, 100), st.just(SEQUENCE_SPAN_MAX)),
        flags=st.integers(0, 255),
        parts=st.lists(st.binary(max_size=300), max_size=3).map(tuple),
        count=st.integers(1, 5),
    )
    def append(self, gap: int, flags: int, parts: tuple[bytes, ...], count: int) -> None:
        for _ in range(count):
            sequence = self.log.next_sequence + gap
            timestamp_ms = 1_700_000_000_000 + sequence
            self.log.append(sequence, timestamp_ms, flags, parts)
            self.live[sequence] = (timestamp_ms, flags, b"".join(parts))

    @rule(size=st.integers(1400, 5000))
    def append_large(self, size: int) -> None:
        self.append(0, PERSISTENT, (b"L" * size, b"end"), 1)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.live)))
        assert self.log.ack(sequence)
        assert not self.log.ack(sequence)
        del self.live[sequence]

    @rule(part=st.floats(0, 1))
    def ack_oldest(self, part: float) -> None:
        oldest = sorted(self.live)[: int(len(self.live) * part)]
        assert self.log.ack_many(oldest) == len(oldest)
        for sequence in oldest:
            del self.live[sequence]

    @rule(sequence=st.integers(0, 1 << 40))
    def ack_what_is_not_there(self, sequence: int) -> None:
        if sequence not in self.live:
            assert not self.log.ack(sequence)

    @rule()
    def purge(self) -> None:
        assert self.log.purge_from(0) == len(self.live)
        self.live.clear()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def purge_from(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(sorted(self.live)))
        gone = [sequence for sequence in self.live if sequence >= first]
        assert self.log.purge_from(first) == len(gone)
        for sequence in gone:
            del self.live[sequence]

    @rule()
    def trim(self) -> None:
        self.log.trim()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(part=st.floats(0, 1))
    def retain(self, part: float) -> None:
        keep = int(len(self.live) * part)
        gone = sum(segment.live.count for segment in retain(self.log, now_ms=0, count_max=keep))
        for sequence in sorted(self.live)[:gone]:
            del self.live[sequence]
        assert len(self.live) >= keep
        # Files are gone at once, although nobody has written that down.
        first = self.log.first_sequence
        self.written = {sequence: entry for sequence, entry in self.written.items() if sequence >= first}

    @rule()
    def write(self) -> None:
        self.log.write()
        self.log.take_dirty()
        self.written = dict(self.live)

    @rule()
    def reopen(self) -> None:
        self.write()
        self.disk.wait_deleted()
        names = {segment.name for segment in self.log.segments if segment.created}
        found = set(os.listdir(self.log.directory)) if os.path.exists(self.log.directory) else set()
        assert names <= found <= names | {segment.ack_name for segment in self.log.segments}
        self.crash()

    @rule()
    def crash(self) -> None:
        self.disk.wait_deleted()
        self.log = self.open()
        assert self.log.recovery.damages == []
        persistent = {sequence: entry for sequence, entry in self.written.items() if entry[1] & PERSISTENT}
        assert self.log.recovery.live_bytes == sum(len(entry[2]) for entry in persistent.values())
        self.live = persistent
        self.written = dict(persistent)

    @rule(data=st.data(), bytes_max=st.integers(1, 4000))
    def read_from_anywhere(self, data: st.DataObject, bytes_max: int) -> None:
        first = data.draw(st.sampled_from([0, *(sequence + 1 for sequence in self.live)]))
        records = self.log.read(first, bytes_max)
        expected = [sequence for sequence in sorted(self.live) if sequence >= first]
        assert [record.sequence for record in records] == expected[: len(records)]
        assert bool(records) == bool(expected)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "log"):
            assert self.log.count == len(self.live)
            assert contents(self.log) == self.live
            assert self.log.bytes_on_disk == sum(segment.size for segment in self.log.segments)


LogMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLogAgainstModel = LogMachine.TestCase


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(FileSystem(), str(tmp_path / "trash"))


def fill(log: Log, count: int, size: int = 100, flags: int = PERSISTENT) -> None:
    for _ in range(count):
        sequence = log.next_sequence
        log.append(sequence, 1000 + sequence, flags, (b"%d:" % sequence, b"x" * size))


def test_a_log_that_was_never_written_leaves_no_trace(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk)
    log.write()
    assert list(tmp_path.iterdir()) == []


def test_records_in_memory_are_read_and_acked_without_a_file(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk)
    fill(log, 3)
    assert list(contents(log)) == [0, 1, 2]
    log.purge_from(0)
    log.roll()
    log.write()
    assert not (tmp_path / "log").exists()


def test_the_disk_is_empty_after_a_drain(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=20_000)
    fill(log, 1000)
    log.write()
    assert len(log.segments) > 5
    for sequence in range(1000):
        assert log.ack(sequence)
        if sequence % 50 == 0:
            log.write()
    log.write()
    disk.wait_deleted()
    assert os.listdir(tmp_path / "log") == []
    assert log.take_dirty().files == set()
    assert (log.count, log.bytes_on_disk, log.segments) == (0, 0, [])
    assert log.next_sequence == 1000


@pytest.mark.parametrize("reopen", [False, True])
def test_nothing_is_left_of_a_backlog_however_short_its_last_segment(
    tmp_path: Path, disk: Disk, reopen: bool
) -> None:
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=20_000)
    while len(log.segments) < 3:
        fill(log, 1)
    log.write()
    if reopen:
        log = Log.open(str(tmp_path / "log"), disk, segment_bytes=20_000)
    log.ack_many(range(log.next_sequence))
    log.write()
    disk.wait_deleted()
    assert os.listdir(tmp_path / "log") == []


def test_an_idle_log_is_trimmed(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk)
    fill(log, 2)
    log.write()
    log.ack(0)
    log.trim()
    log.write()
    assert list(contents(log)) == [1]
    log.ack(1)
    log.write()
    disk.wait_deleted()
    assert len(os.listdir(tmp_path / "log")) == 2  # too small to be worth a new file while messages flow
    log.trim()
    log.write()
    disk.wait_deleted()
    assert os.listdir(tmp_path / "log") == []


def test_acks_in_a_row_are_one_entry_even_over_gaps(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk)
    for sequence in range(0, 3000, 3):
        log.append(sequence, 0, PERSISTENT, (b"x",))
    log.write()
    for sequence in range(0, 2700, 3):
        log.ack(sequence)
    log.write()
    (acks,) = (tmp_path / "log").glob("*.acks")
    assert acks.stat().st_size == 32 + 16


def test_acks_do_not_outlive_the_records_they_were_for(tmp_path: Path, disk: Disk) -> None:
    """A power cut may keep an ack and lose its record; the next record must not inherit the ack."""
    log = Log.open(str(tmp_path / "log"), disk)
    fill(log, 10)
    log.write()
    for sequence in (2, 8, 9):
        log.ack(sequence)
    log.write()
    (segment,) = (tmp_path / "log").glob("*.segment")
    os.truncate(segment, segment.stat().st_size - 500)
    log = Log.open(str(tmp_path / "log"), disk)
    assert log.recovery.torn_bytes > 0
    assert list(contents(log)) == [0, 1, 3, 4, 5]
    fill(log, 3)
    log.write()
    assert len(contents(Log.open(str(tmp_path / "log"), disk))) == 8


def test_dropping_deletes_everything_in_the_background(tmp_path: Path, disk: Disk) -> None:
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=1000)
    fill(log, 100)
    log.write()
    log.drop()
    assert (log.count, log.read(0)) == (0, [])
    disk.wait_deleted()
    assert not (tmp_path / "log").exists()
    assert os.listdir(tmp_path / "trash") == []


def test_dropping_leaves_the_disk_to_another_thread(tmp_path: Path) -> None:
    """However many queues go at once, whoever deletes them has others to serve meanwhile."""
    called_in: set[str] = set()

    class Watched(FileSystem):
        def __getattribute__(self, name: str) -> object:
            called_in.add(threading.current_thread().name)
            return super().__getattribute__(name)

    disk = Disk(Watched(), str(tmp_path / "trash"))
    log = Log.open(str(tmp_path / "log"), disk, segment_bytes=1000)
    fill(log, 100)
    log.write()
    log.ack_many(range(50))
    log.write()
    disk.wait_deleted()
    called_in.clear()
    log.drop()
    disk.wait_deleted()
    assert called_in == {"store-trash"}
    disk.close()


def test_trash_of_the_last_run_is_emptied(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "trash" / "old").mkdir(parents=True)
    (tmp_path / "trash" / "old" / "file").write_text("x")
    disk.empty_trash()
    disk.wait_deleted()
    assert os.listdir(tmp_path / "trash") == []


def test_files_stay_few_however_many_logs_there_are(tmp_path: Path) -> None:
    disk = Disk(FileSystem(), str(tmp_path / "trash"), files_open_max=5)
    before = len(os.listdir("/proc/self/fd"))
    logs = [Log.open(str(tmp_path / str(number)), disk) for number in range(50)]
    for _ in range(3):
        for log in logs:
            fill(log, 1)
            log.write()
            log.take_dirty()
    assert len(os.listdir("/proc/self/fd")) <= before + 5
    assert all(log.count == 3 for log in logs)
