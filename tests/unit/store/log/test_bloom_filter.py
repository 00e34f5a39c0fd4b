"""Bloom filters beside segments."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.bloom_filter import (
    SegmentFilter,
    delete_stray_filters,
    filter_path,
    read_filter,
    write_filter,
)
from embermq.store.log.log import Log
from embermq.store.log.record import PERSISTENT


@given(values=st.sets(st.text(max_size=20), max_size=50), others=st.sets(st.text(max_size=20), max_size=50))
def test_what_was_added_is_always_found(values: set[str], others: set[str]) -> None:
    found = SegmentFilter()
    for value in values:
        found.add(value)
    assert all(found.may_have(value) for value in values)
    wrong = sum(found.may_have(value) for value in others - values)
    assert wrong <= 1  # about one in a million, with fifty values


def test_a_thousand_values_are_told_apart() -> None:
    found = SegmentFilter()
    for number in range(1000):
        found.add(f"value {number}")
    assert sum(found.may_have(f"other {number}") for number in range(10_000)) < 50


def a_log(tmp_path: Path) -> Log:
    log = Log.open(str(tmp_path / "log"), Disk(FileSystem(), str(tmp_path / "trash")), 1000)
    for sequence in range(20):
        log.append(sequence, 0, PERSISTENT, (b"x" * 100,))
    log.write()
    return log


def test_filters_are_read_back(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    first, second = log.segments[:2]
    found = SegmentFilter()
    found.add("red")
    found.add(None)
    write_filter(log, first, found)
    again = read_filter(log, first)
    assert again is not None
    assert (again.bits, again.has_others) == (found.bits, True)
    assert read_filter(log, second) is None
    # One that belongs to another segment, and a damaged one, are none.
    Path(filter_path(log, second)).write_bytes(Path(filter_path(log, first)).read_bytes())
    assert read_filter(log, second) is None
    path = Path(filter_path(log, first))
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    assert read_filter(log, first) is None
    path.write_bytes(data[:100])
    assert read_filter(log, first) is None


def test_strays_are_deleted(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    first = log.segments[0]
    write_filter(log, first, SegmentFilter())
    write_filter(log, log.segments[1], SegmentFilter())
    log.remove(first)
    delete_stray_filters(log)
    assert len(list(Path(log.directory).glob("*.filter"))) == 1
