"""Numbers of series against sets that do the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.deduplication.series import BLOCK, Part, SeriesTable, split

# About the borders of blocks, and in runs that close holes.
near = st.sampled_from([0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 2**62])
runs = st.lists(st.tuples(near, st.integers(1, 2 * BLOCK)), max_size=8)


@given(runs)
def test_a_part_is_a_set_of_numbers(runs: list[tuple[int, int]]) -> None:
    part, known = Part(), set()
    for first, count in runs:
        for number in range(first, first + count):
            assert part.has(number) == (number in known)
            part.add(number)
            known.add(number)
    assert all(part.has(number) for number in known)
    for number in {
        neighbour for first, count in runs for neighbour in (first - 1, first + count) if neighbour >= 0
    }:
        assert part.has(number) == (number in known)
    gapless = next(number for number in range(len(known) + 1) if number not in known)
    assert part.next == gapless
    beyond = {number // BLOCK for number in known if number > gapless}
    assert beyond <= part.ahead.keys() <= beyond | {gapless // BLOCK}


@given(st.lists(st.tuples(st.sampled_from(b"ab"), st.integers(0, 2), near), max_size=100))
def test_a_table_counts_what_it_has(steps: list[tuple[int, int, int]]) -> None:
    table, known = SeriesTable(), set()
    for now, (letter, part, number) in enumerate(steps):
        name = bytes([letter])
        grown = table.size + table.growth(name, part, number)
        table.add(name, part, number, now)
        known.add((name, part, number))
        assert table.size <= grown, "a block that is full goes"
        assert table.count == len(known)
        assert table.find(name, part, number) == now
    assert table.size == sum(part.size for series in table.series.values() for part in series.parts.values())
    while table.series:
        oldest = next(iter(table.series))
        assert table.oldest_ms() == min(series.last_ms for series in table.series.values())
        table.drop_oldest()
        assert all(table.find(*identity) == -1 for identity in known if identity[0] == oldest)
    assert (table.size, table.count, table.first_ms()) == (0, 0, -1)


def test_a_million_in_order_are_one_entry() -> None:
    table = SeriesTable()
    for number in range(1_000_000):
        table.add(b"batch", 0, number, 1)
    assert (table.size, table.count) == (1, 1_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"series:query/7/0/12", (b"series:query/7", 0, 12)),
        (b"series:/1/2", (b"series:", 1, 2)),
        (b"series:query/7/0/012", None),
        (b"series:query/7/+1/2", None),
        (b"series:query/7/1/99999999999999999999", None),
        (b"series:12", None),
        (b"series:a/\xd9\xa1/1", None),
        (b"order/1/2", None),
    ],
)
def test_identities_that_are_of_a_series(text: bytes, expected: object) -> None:
    assert split(text) == expected
