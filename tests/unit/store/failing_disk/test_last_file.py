"""How the last file of a log may end: as a crash leaves it, or as an orderly stop does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.log import Log
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE
from embermq.store.recovery.check import check_log
from tests.unit.store.failing_disk.test_damaged_files import (
    HastyFileSystem,
    alive,
    check_reopens_the_same,
    copy,
    open_log,
    segments,
)
from tests.unit.store.failing_disk.test_damaged_files import original as original  # a fixture
from tests.unit.store.log.test_log import contents


@pytest.mark.parametrize("size", [0, 1, SEGMENT_HEADER_SIZE - 1, SEGMENT_HEADER_SIZE])
def test_a_last_segment_that_was_about_to_begin(original: Path, tmp_path: Path, size: int) -> None:
    directory = copy(original, tmp_path)
    os.truncate(segments(directory)[2], size)
    report = check_log(FileSystem(), str(directory), "id")
    log = open_log(directory)
    assert contents(log) == {s: entry for s, entry in alive().items() if s < 10}
    assert log.recovery.damages == report.damages == []


@pytest.mark.parametrize("cut", [1, 30, 43, 60, 5 * 43 + 39])
def test_a_torn_tail_is_damage_where_nothing_was_torn(original: Path, tmp_path: Path, cut: int) -> None:
    """Behind an orderly stop no write was cut off: what is missing was confirmed."""
    directory = copy(original, tmp_path)
    last = segments(directory)[2]
    os.truncate(last, last.stat().st_size - cut)
    report = check_log(FileSystem(), str(directory), "id", whole=True)
    log = Log.open(str(directory), Disk(HastyFileSystem(), f"{directory}.trash"), whole=True)
    left = last.stat().st_size if last.exists() else 0
    assert left == 0 or cut % 43 == 0, "at the end of a record nobody can tell"
    damages = [] if left else [str(last)]
    assert [damage.path for damage in log.recovery.damages] == damages
    assert [damage.path for damage in report.damages] == damages
    assert [damage.lost for damage in log.recovery.damages] == [damage.lost for damage in report.damages]
    check_reopens_the_same(directory, contents(log))


def test_room_is_no_damage_behind_an_orderly_stop(original: Path, tmp_path: Path) -> None:
    directory = copy(original, tmp_path)
    last = segments(directory)[2]
    os.truncate(last, last.stat().st_size + 5000)
    assert check_log(FileSystem(), str(directory), "id", whole=True).sound
    log = Log.open(str(directory), Disk(HastyFileSystem(), f"{directory}.trash"), whole=True)
    assert (contents(log), log.recovery.damages) == (alive(), [])
