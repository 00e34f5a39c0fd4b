"""The schedule against a list that is sorted: what leaves, in which order, and what a restart finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.broker.delayed import schedule as schedule_module
from embermq.broker.delayed.record import Delayed, usable_keys
from embermq.broker.delayed.schedule import Schedule
from tests.support.domain import Loop, message
from tests.support.stored_domain import StoredBroker

HEAD_COUNT = 8


@pytest.fixture(autouse=True)
def small_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages make several runs, read in several blocks."""
    monkeypatch.setattr(schedule_module, "HEAD_COUNT_MAX", HEAD_COUNT)
    monkeypatch.setattr(schedule_module, "WINDOW_COUNT_MAX", 3)
    monkeypatch.setattr(schedule_module, "SOON_MS", 5)
    for name in ("READ_BYTES_MAX", "READ_BYTES_MIN"):
        monkeypatch.setattr(schedule_module, name, 200)


class Twin:
    """A schedule on disk and the simple model of it."""

    def __init__(self, directory: Path) -> None:
        self.stored = StoredBroker(directory)
        self.model: dict[bytes, tuple[int, int, bool]] = {}  # by body: due, number, persistent
        self.out: list[Delayed] = []  # taken, and not done
        self.added = 0
        self.now = 0

    @property
    def schedule(self) -> Schedule:
        return self.stored.vhost.delays.schedule

    def add(self, due: int, persistent: bool) -> None:
        self.added += 1
        body = b"%d" % self.added
        self.model[body] = due, self.added, persistent
        text = message(body, persistent=persistent, exchange="amq.direct")
        self.schedule.add(Delayed(due, "e:amq.direct", text, ("a", "b"), 3, 7, keeps=persistent))

    def take(self, now: int, count: int, asked: int = 0) -> None:
        expected = sorted((due, number, body) for body, (due, number, _) in self.model.items() if due <= now)
        taken = self.schedule.take_due(now, asked or count)
        assert [delayed.message.body for delayed in taken] == [body for _, _, body in expected[:count]]
        for delayed in taken:
            assert (delayed.keys, delayed.returns, delayed.since_ms) == (("a", "b"), 3, 7)
            assert delayed.due_ms == self.model.pop(delayed.message.body)[0]
        self.out += taken

    def finish(self) -> None:
        for delayed in self.out:
            self.schedule.done(delayed)
        self.out.clear()
        self.stored.wait_until_safe()

    def restart(self) -> None:
        """As after a kill: what was taken and is not done comes back, what is transient does not."""
        self.stored.wait_until_safe()
        for delayed in self.out:
            body = delayed.message.body
            self.model[body] = delayed.due_ms, int(body), bool(delayed.keeps)
        self.out.clear()
        self.model = {body: known for body, known in self.model.items() if known[2]}
        self.stored = self.stored.restarted(cleanly=False)
        assert self.stored.vhost.delays.counts == Counter(
            {"e:amq.direct": len(self.model)} if self.model else {}
        )


# Dues near each other, so that there are equal ones; in ascending order often enough to make runs directly.
ADD = st.tuples(st.just("add"), st.integers(1, 60), st.booleans())
TAKE = st.tuples(st.just("take"), st.integers(0, 70), st.integers(1, 30))
STEPS = st.lists(
    st.one_of(ADD, ADD, ADD, ADD, TAKE, st.just(("finish",)), st.just(("restart",))), max_size=80
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_it_is_a_sorted_list(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as directory:
        twin = Twin(Path(directory))
        for name, *arguments in steps:
            getattr(twin, str(name))(*arguments)
        twin.restart()
        twin.take(100, 1000)
        twin.finish()
        assert twin.schedule.next_due_ms() == 0
        assert all(part.is_empty for part in [*twin.schedule.heads, *twin.schedule.runs])
        twin.stored.stop()


def test_equal_delays_make_one_run_and_are_written_once(tmp_path: Path) -> None:
    twin = Twin(tmp_path)
    for number in range(200):
        twin.add(1000 + number, True)
        twin.add(50_000 + number, True)
    twin.stored.wait_until_safe()
    assert len(twin.schedule.runs) <= 3
    assert sum(len(run.window) for run in twin.schedule.runs) + len(twin.schedule.heap) <= 3 * 3 + HEAD_COUNT
    twin.take(100_000, 1000)
    twin.finish()
    assert not twin.schedule.runs
    twin.stored.stop()


def test_a_crash_between_the_run_and_the_head_makes_no_double(tmp_path: Path) -> None:
    twin = Twin(tmp_path)
    for number in range(HEAD_COUNT):
        twin.add(90 - number, True)
    twin.stored.loop.run()  # the run is written; that it is safe, nobody has been told
    assert not twin.schedule.heads[0].is_empty
    twin.stored = twin.stored.restarted(cleanly=False)
    assert twin.stored.vhost.delays.count == HEAD_COUNT
    twin.take(100, 100)
    twin.finish()
    twin.stored.stop()


def test_what_cannot_be_read_now_leaves_later(tmp_path: Path) -> None:
    """As with too many open files: nothing is taken out that nobody gets."""
    twin = Twin(tmp_path / "data")
    for due in range(1, 2 * HEAD_COUNT):
        twin.add(due, True)
    twin.restart()  # nothing of a run is in memory
    run = twin.schedule.runs[-1]
    assert run.log is not None
    while not run.window:
        twin.take(100, 1)
    log, away = Path(run.log.directory), tmp_path / "away"
    for segment in run.log.segments:
        twin.stored.data.disk.forget_file(f"{log}/{segment.name}")
    log.rename(away)
    in_memory = len(run.window)
    assert not twin.schedule.heap and 0 < in_memory < len(twin.model)
    twin.take(100, in_memory, asked=100)
    for _ in range(2):
        with pytest.raises(OSError):
            twin.schedule.take_due(100, 100)
    away.rename(log)
    twin.take(100, 100)
    assert not twin.model
    twin.finish()
    twin.stored.stop()


def test_without_a_disk_it_is_a_heap() -> None:
    schedule = Schedule(Loop().turn, None, "x")
    for due in (30, 10, 20):
        schedule.add(Delayed(due, "q:x", message(b"%d" % due)))
    assert schedule.next_due_ms() == 10
    taken = schedule.take_due(25, 10)
    assert [delayed.due_ms for delayed in taken] == [10, 20]
    for delayed in taken:
        schedule.done(delayed)
    schedule.clear()
    assert schedule.next_due_ms() == 0


def test_keys_that_do_not_fit_are_left_out() -> None:
    assert usable_keys(["a", "b" * 70_000, "\udcff"]) == ("a", "\udcff")
