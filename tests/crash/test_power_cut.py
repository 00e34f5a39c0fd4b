"""The power fails: what the disk has synced, and arbitrary beginnings of the rest, are all that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.store.data_directory import DataDirectory
from embermq.store.disk import disk
from embermq.store.log import preallocation as room
from tests.crash.power_cuts import ElectricHistory


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--crash-seed")
        histories = metafunc.config.getoption("--cycles")
        metafunc.parametrize("seed", range(1, histories + 1) if only is None else [only])


@pytest.fixture(autouse=True, params=[700, 5_000], ids=["small segments", "larger segments"])
def _segments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, so that they are begun, sealed and deleted all the time; with room at their ends."""
    monkeypatch.setattr(DataDirectory, "segment_bytes", request.param)
    monkeypatch.setattr(disk, "ROOM_BYTES", 900)
    monkeypatch.setattr(room, "WRITES_BEFORE_ROOM", 2)


def test_what_was_promised_is_there_after_a_power_cut(tmp_path: Path, seed: int) -> None:
    history = ElectricHistory(tmp_path, seed)
    try:
        assert history.run(), "nothing was ever there: this history has proven nothing"
    finally:
        history.close()
