"""Bulk connections get large shares of a turn while alone, and short ones beside interactive connections."""

from __future__ import annotations

import pytest

from embermq.broker.fairness import Fairness

NOW_MS = 1_000_000
READ_BYTES_MIN, READ_BYTES_MAX = 24 * 1024, 512 * 1024


def beside_interactive() -> Fairness:
    fairness = Fairness()
    fairness.note_interactive(NOW_MS)
    return fairness


def test_bulk_alone_is_read_in_large_shares_however_long_they_take() -> None:
    fairness = Fairness()
    assert not fairness.has_interactive(NOW_MS)
    assert fairness.read_bytes(NOW_MS, READ_BYTES_MAX, 3.0) == READ_BYTES_MAX


@pytest.mark.parametrize(
    ("took_s", "bulk_count", "fitting"),
    [
        (0.00005, 1, READ_BYTES_MAX),  # quick enough
        (0.0004, 1, READ_BYTES_MAX // 4),
        (0.0004, 2, READ_BYTES_MAX // 8),  # two of them share the time of one
        (3.0, 1, READ_BYTES_MIN),
        (0.0, 1, READ_BYTES_MAX),
    ],
)
def test_beside_an_interactive_connection_a_share_takes_a_tenth_of_a_millisecond(
    took_s: float, bulk_count: int, fitting: int
) -> None:
    fairness = beside_interactive()
    fairness.bulk_count = bulk_count
    assert abs(fairness.read_bytes(NOW_MS, READ_BYTES_MAX, took_s) - fitting) <= 8 * 1024


def test_as_many_bulk_connections_as_in_the_turn_before_are_expected_again() -> None:
    fairness = beside_interactive()
    fairness.bulk_count = 4
    fairness.begin_turn(NOW_MS)
    assert abs(fairness.read_bytes(NOW_MS, READ_BYTES_MAX, 0.0002) - READ_BYTES_MAX // 8) <= 8 * 1024


def test_an_interactive_connection_is_remembered_for_a_while() -> None:
    fairness = Fairness()
    alone = fairness.delivery_bytes
    fairness.note_interactive(NOW_MS)
    fairness.begin_turn(NOW_MS)
    assert fairness.delivery_bytes > alone
    assert fairness.has_interactive(NOW_MS + 199) and not fairness.has_interactive(NOW_MS + 200)
    fairness.begin_turn(NOW_MS + 200)
    assert fairness.delivery_bytes == alone
