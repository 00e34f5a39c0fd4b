"""Who waits for a sync is told, whatever the others make of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.store.sync.test_committer import PATIENCE_SECONDS, Bench


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
