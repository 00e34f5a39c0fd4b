"""Group commit: who is called back when, and what happens when a sync fails."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.errors import CommitFailed
from embermq.store.log.log import Log
from embermq.store.sync.committer import (
    AVERAGED_SYNCS,
    FILES_SYNCED_SINGLY_MAX,
    SLOW_SYNC_FACTOR,
    SYNCS_AFTER_OTHERS,
    SYNCS_AFTER_SLOW_ONE,
    Committer,
    SyncSpeed,
)
from tests.support.faulty_disk import FaultyFileSystem
from tests.unit.store.log.test_log import fill

PATIENCE_SECONDS = 60


class Loop:
    """As much of an event loop as the committer needs: calls from other threads, made in this one."""

    def __init__(self) -> None:
        self.calls: queue.Queue[tuple[Callable[..., Any], tuple[Any, ...]]] = queue.Queue()

    def call_soon_threadsafe(self, function: Callable[..., Any], *args: Any) -> None:
        self.calls.put((function, args))

    def run_one(self) -> None:
        function, args = self.calls.get(timeout=PATIENCE_SECONDS)
        function(*args)


class Bench:
    def __init__(self, root: Path, **options: Any) -> None:
        self.loop = Loop()
        self.root = root
        self.filesystem = FaultyFileSystem(str(root))
        self.disk = Disk(self.filesystem, str(root / "trash"))
        self.committer = Committer(self.filesystem, str(root), self.loop.call_soon_threadsafe, **options)

    def log(self, name: str) -> Log:
        return Log.open(str(self.root / name), self.disk)

    def dirty(self, log: Log) -> None:
        fill(log, 1)
        log.write()
        self.committer.mark_dirty(log)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.filesystem.before_sync = None
    made.committer.close()


def test_the_callback_comes_after_the_sync(bench: Bench) -> None:
    log = bench.log("log")
    bench.dirty(log)
    results: list[Any] = []
    bench.committer.request(lambda error: results.append((error, bench.filesystem.sync_calls)))
    bench.loop.run_one()
    # The segment, its directory, and the directory of that.
    assert results == [(None, 3)]
    bench.dirty(log)
    bench.committer.request(lambda error: results.append((error, bench.filesystem.sync_calls)))
    bench.loop.run_one()
    assert results[1] == (None, 4)


def test_a_batch_gathers_while_a_sync_runs(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def before_sync() -> None:
        entered.set()
        assert go_on.wait(PATIENCE_SECONDS)

    log = bench.log("log")
    bench.filesystem.before_sync = before_sync
    bench.dirty(log)
    results: list[int] = []
    bench.committer.request(lambda error: results.append(0))
    assert entered.wait(PATIENCE_SECONDS)
    for number in range(1, 101):
        bench.dirty(log)
        bench.committer.request(lambda error, number=number: results.append(number))
    assert results == []
    go_on.set()
    bench.loop.run_one()
    assert results == [0]
    bench.loop.run_one()
    assert results == list(range(101))
    assert bench.committer.syncs == 2


@pytest.mark.parametrize("count", [FILES_SYNCED_SINGLY_MAX, FILES_SYNCED_SINGLY_MAX + 1, 200])
def test_many_dirty_logs_are_one_system_call(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.dirty(bench.log(str(number)))
    results: list[Any] = []
    bench.committer.request(results.append)
    bench.loop.run_one()
    assert results == [None]
    assert bench.filesystem.syncfs_calls == (1 if count > FILES_SYNCED_SINGLY_MAX else 0)
    if count > FILES_SYNCED_SINGLY_MAX:
        assert bench.filesystem.sync_calls == 1


def test_a_request_without_anything_dirty_is_answered(bench: Bench) -> None:
    results: list[Any] = []
    bench.committer.request(results.append)
    bench.loop.run_one()
    assert results == [None]


def test_acks_are_synced_for_who_asks(bench: Bench) -> None:
    log = bench.log("log")
    fill(log, 2)
    log.write()
    bench.committer.mark_dirty(log)
    bench.committer.request(lambda error: None, with_acks=True)
    bench.loop.run_one()
    log.ack(0)
    log.write()
    bench.committer.mark_dirty(log)
    before = bench.filesystem.sync_calls
    bench.committer.request(lambda error: None, with_acks=True)
    bench.loop.run_one()
    assert bench.filesystem.sync_calls == before + 2  # the ack file and, as it is new, its directory


@pytest.mark.parametrize("patience", [0.0, 3600.0])
def test_acks_do_not_wait_for_ever(tmp_path: Path, patience: float) -> None:
    bench = Bench(tmp_path, ack_sync_seconds_max=patience)
    log = bench.log("log")
    fill(log, 2)
    log.write()
    log.ack(0)
    log.write()
    bench.committer.mark_dirty(log)
    bench.committer.request(lambda error: None)
    bench.loop.run_one()
    # The segment, the ack file if it is time, their directory, and the directory of that.
    assert bench.filesystem.sync_calls == (4 if patience == 0 else 3)
    bench.committer.close()
    assert bench.filesystem.sync_calls == 4


def test_dirt_that_nobody_asks_about_is_synced_in_the_end(bench: Bench) -> None:
    synced = threading.Event()
    bench.filesystem.before_sync = synced.set
    bench.dirty(bench.log("log"))
    assert synced.wait(PATIENCE_SECONDS)


def test_a_failed_sync_is_the_end_of_all_promises(bench: Bench) -> None:
    log = bench.log("log")
    bench.filesystem.failing_syncs = True
    bench.dirty(log)
    results: list[Any] = []
    bench.committer.request(results.append)
    bench.loop.run_one()
    assert isinstance(results[0], CommitFailed)
    assert "Input/output error" in str(results[0])
    # The disk seems to be well again, but what was dirty at the failure may be gone.
    bench.filesystem.failing_syncs = False
    bench.dirty(log)
    bench.committer.request(results.append)
    bench.loop.run_one()
    assert results[1] is results[0] is bench.committer.failure


def test_who_asks_while_a_sync_fails_is_told(bench: Bench) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def before_sync() -> None:
        entered.set()
        assert go_on.wait(PATIENCE_SECONDS)

    bench.filesystem.before_sync = before_sync
    bench.filesystem.failing_syncs = True
    bench.dirty(bench.log("log"))
    results: list[Any] = []
    bench.committer.request(results.append)
    assert entered.wait(PATIENCE_SECONDS)
    bench.committer.request(results.append)
    go_on.set()
    bench.loop.run_one()
    assert [type(result) for result in results] == [CommitFailed, CommitFailed]


def test_closing_syncs_what_is_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.dirty(bench.log("log"))
    bench.committer.close()
    assert bench.filesystem.sync_calls == 3
    results: list[Any] = []
    bench.committer.request(results.append)
    bench.loop.run_one()
    assert isinstance(results[0], CommitFailed)


def test_deleting_a_log_does_not_fail_the_commit(bench: Bench) -> None:
    log = bench.log("log")
    entered, go_on = threading.Event(), threading.Event()

    def before_sync() -> None:
        entered.set()
        assert go_on.wait(PATIENCE_SECONDS)

    bench.filesystem.before_sync = before_sync
    bench.dirty(log)
    results: list[Any] = []
    bench.committer.request(results.append)
    assert entered.wait(PATIENCE_SECONDS)
    log.drop()
    bench.filesystem.before_sync = None
    go_on.set()
    bench.loop.run_one()
    assert results == [None]


class QuickBench(Bench):
    """Takes every disk for a quick one, and notes in which thread it was synced."""

    def __init__(self, root: Path, quick_sync_seconds: float = 60.0) -> None:
        super().__init__(root)
        self.quiet = True
        self.active_count = 0  # turns
        self.threads: list[str] = []
        self.filesystem.before_sync = lambda: self.threads.append(threading.current_thread().name)
        self.committer.sync_here(self, quick_sync_seconds)
        self.written = self.log("log")
        for _ in range(SYNCS_AFTER_SLOW_ONE):  # until the disk has shown how quick it is
            self.commit()

    def at_end(self, action: Callable[[bool], None]) -> None:
        self.loop.call_soon_threadsafe(lambda: action(self.quiet))

    def commit(self, requests: int = 1) -> set[str]:
        """The threads in which the syncs were that so many requests of the next turn waited for."""
        self.active_count += 1
        self.threads.clear()
        results: list[Any] = []
        self.dirty(self.written)
        for _ in range(requests):
            self.committer.request(results.append)
        while len(results) < requests:
            self.loop.run_one()
        assert results == [None] * requests
        return set(self.threads)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[QuickBench]:
    made = QuickBench(tmp_path)
    yield made
    made.committer.close()


HERE, THREAD = {"MainThread"}, {"store-commit"}


def test_one_who_is_alone_with_a_quick_disk_needs_no_thread(quick: QuickBench) -> None:
    assert quick.commit() == HERE
    assert quick.commit() == HERE


def test_several_share_a_sync_of_the_thread(quick: QuickBench) -> None:
    assert quick.commit(requests=2) == THREAD
    assert quick.commit() == HERE


def test_the_loop_does_not_wait_for_a_disk_while_others_wait_for_it(quick: QuickBench) -> None:
    quick.quiet = False
    assert quick.commit() == THREAD
    quick.quiet = True
    assert quick.commit() == HERE


def test_while_others_have_turns_the_loop_does_not_wait(quick: QuickBench) -> None:
    assert quick.commit() == HERE
    quick.active_count += 1
    for _ in range(SYNCS_AFTER_OTHERS):
        assert quick.commit() == THREAD
    assert quick.commit() == HERE


def test_a_new_file_is_a_matter_for_the_thread(quick: QuickBench) -> None:
    quick.written = quick.log("other")
    assert quick.commit() == THREAD
    assert quick.commit() == HERE


def test_the_loop_does_not_wait_for_a_slow_disk(tmp_path: Path) -> None:
    bench = QuickBench(tmp_path, quick_sync_seconds=1e-9)
    assert bench.commit() == THREAD
    bench.committer.close()


def test_after_a_slow_sync_the_thread_tries_first(quick: QuickBench) -> None:
    quick.committer.wrote_synced(quick.active_count, 60.0 * SLOW_SYNC_FACTOR)
    for _ in range(SYNCS_AFTER_SLOW_ONE):
        assert quick.commit() == THREAD
    assert quick.commit() == HERE


def test_a_sync_that_fails_in_the_loop_is_the_end_as_well(quick: QuickBench) -> None:
    quick.filesystem.failing_syncs = True
    quick.dirty(quick.written)
    results: list[Any] = []
    quick.committer.request(results.append)
    quick.loop.run_one()
    assert isinstance(results[0], CommitFailed)
    assert set(quick.threads) >= HERE
    quick.filesystem.failing_syncs = False
    quick.committer.request(results.append)
    quick.loop.run_one()
    assert results[1] is results[0]


def next_turn(bench: QuickBench) -> bool:
    bench.active_count += 1
    return bool(bench.committer.may_write_synced(bench.active_count))


def test_who_is_alone_may_write_and_sync_in_one(quick: QuickBench) -> None:
    for _ in range(3):
        assert next_turn(quick)
        quick.committer.wrote_synced(quick.active_count, 0.0001)
    assert quick.committer.syncs == SYNCS_AFTER_SLOW_ONE + 3


def test_nobody_writes_and_syncs_in_one_while_others_have_turns(quick: QuickBench) -> None:
    quick.active_count += 1
    assert not next_turn(quick)
    for _ in range(SYNCS_AFTER_OTHERS - 1):
        assert quick.commit() == THREAD
        assert not next_turn(quick)
        quick.active_count -= 1
    quick.commit()
    assert next_turn(quick)


def test_nobody_writes_and_syncs_in_one_while_there_is_more_to_sync(quick: QuickBench) -> None:
    results: list[Any] = []
    quick.dirty(quick.written)
    assert not next_turn(quick)
    quick.active_count -= 1
    quick.committer.request(results.append)
    quick.loop.run_one()
    assert next_turn(quick)
    quick.active_count -= 1
    quick.committer.request(results.append)
    assert not next_turn(quick), "somebody else waits"
    quick.loop.run_one()


def test_nobody_writes_and_syncs_in_one_on_a_slow_disk(quick: QuickBench) -> None:
    assert next_turn(quick)
    quick.committer.wrote_synced(quick.active_count, 60.0 * SLOW_SYNC_FACTOR)
    assert not next_turn(quick)


def test_nobody_writes_and_syncs_in_one_after_a_failure(quick: QuickBench) -> None:
    quick.filesystem.failing_syncs = True
    quick.dirty(quick.written)
    quick.committer.request(lambda failure: None)
    quick.loop.run_one()
    assert not next_turn(quick)


def test_sync_left_to_the_operating_system(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sync="os")
    log = bench.log("log")
    bench.dirty(log)
    results: list[Any] = []
    bench.committer.request(results.append)
    assert results == []
    bench.loop.run_one()
    assert results == [None]
    assert bench.filesystem.sync_calls == 0
    bench.committer.close()


def test_what_one_makes_of_it_does_not_keep_it_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    told: list[Exception | None] = []
    syncing = threading.Event()
    bench.filesystem.before_sync = lambda: syncing.wait(PATIENCE_SECONDS) and None
    bench.dirty(bench.log("a"))
    bench.committer.request(lambda failure: None)
    bench.committer.request(lambda failure: [].clear(1))  # type: ignore[call-arg]
    bench.committer.request(told.append)
    syncing.set()
    while not told:
        bench.loop.run_one()
    assert told == [None]
    assert caplog.text.count("a fault of ours") == 1
    bench.committer.close()


# -- which disks are quick enough to be waited for

QUICK_S = 0.001


def shown(seconds: float, syncs: int = 10 * AVERAGED_SYNCS) -> SyncSpeed:
    """A disk that has taken so long several times."""
    speed = SyncSpeed()
    speed.call_quick(QUICK_S)
    for _ in range(syncs):
        speed.note(seconds)
    return speed


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not shown(QUICK_S / 2, syncs=0).is_quick()
    assert not shown(QUICK_S / 2, syncs=1).is_quick()
    assert shown(QUICK_S / 2).is_quick()
    assert not shown(QUICK_S * 2).is_quick()


def test_one_slow_sync_among_many_does_not_matter() -> None:
    speed = shown(QUICK_S / 2)
    speed.note(QUICK_S * 2)
    assert speed.is_quick()


def test_a_slow_sync_does_and_counts_for_nothing_else() -> None:
    speed = shown(QUICK_S / 2)
    speed.note(QUICK_S * SLOW_SYNC_FACTOR)
    for _ in range(SYNCS_AFTER_SLOW_ONE):
        assert not speed.is_quick()
        speed.note(QUICK_S / 2)
    assert speed.is_quick()


def test_the_longer_of_two_pauses_holds() -> None:
    speed = shown(QUICK_S / 2)
    speed.pause(3)
    speed.pause(1)
    for _ in range(3):
        assert not speed.is_quick()
        speed.note(QUICK_S / 2)
    assert speed.is_quick()
