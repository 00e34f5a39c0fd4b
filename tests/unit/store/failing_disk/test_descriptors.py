"""Clients may use up all descriptors that a process may have: a sync that needs one waits for it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.log import Log
from embermq.store.sync import committer as commit
from embermq.store.sync.committer import Committer
from tests.unit.store.log.test_log import fill
from tests.unit.store.sync.test_committer import Loop


@contextmanager
def no_descriptors() -> Iterator[None]:
    """All are taken."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, limits[1]))
    taken = [last]
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


class Bench:
    """A new file that nobody has synced, on the real file system."""

    def __init__(self, root: Path) -> None:
        self.loop = Loop()
        filesystem = FileSystem()
        self.committer = Committer(filesystem, str(root), self.loop.call_soon_threadsafe)
        log = Log.open(str(root / "log"), Disk(filesystem, str(root / "trash")))
        fill(log, 1)
        log.write()
        self.committer.mark_dirty(log)


def test_a_new_file_is_safe_when_there_are_descriptors_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    told: list[Exception | None] = []
    with no_descriptors():
        bench.committer.request(told.append)
        while "too many open files" not in caplog.text and bench.loop.calls.empty():
            os.sched_yield()
        assert bench.loop.calls.empty(), "nobody is told anything"
    bench.loop.run_one()
    assert told == [None] and bench.committer.failure is None
    bench.committer.close()


def test_who_stops_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "TRIES_WHEN_CLOSING", 2)
    bench = Bench(tmp_path)
    with no_descriptors():
        bench.committer.close()
    assert bench.committer.failure is not None
