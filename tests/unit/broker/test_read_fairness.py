"""Who floods gets large pieces while alone, and pieces that do not take long in company."""

from __future__ import annotations

import pytest

from embermq.broker.read_fairness import Company

NOW_MS = 1_000_000
WHOLE = 512 * 1024


def test_one_who_is_alone_may_be_as_slow_as_he_likes() -> None:
    company = Company()
    assert not company.is_there(NOW_MS)
    assert company.read_bytes(NOW_MS, WHOLE, 3.0) == WHOLE


@pytest.mark.parametrize(
    ("took_s", "floods", "fitting"),
    [
        (0.00005, 1, WHOLE),  # quick enough
        (0.0004, 1, WHOLE // 4),
        (0.0004, 2, WHOLE // 8),  # two of them share the time of one
        (3.0, 1, 24 * 1024),  # there is a smallest piece
        (0.0, 1, WHOLE),
    ],
)
def test_in_company_a_piece_takes_a_tenth_of_a_millisecond(took_s: float, floods: int, fitting: int) -> None:
    company = Company()
    company.heard(NOW_MS)
    company.floods = floods
    assert abs(company.read_bytes(NOW_MS, WHOLE, took_s) - fitting) <= 8 * 1024


def test_as_many_as_flooded_the_turn_before_are_expected_again() -> None:
    company = Company()
    company.heard(NOW_MS)
    company.floods = 4
    company.begin_turn(NOW_MS)
    assert abs(company.read_bytes(NOW_MS, WHOLE, 0.0002) - WHOLE // 8) <= 8 * 1024


def test_company_is_remembered_for_a_while() -> None:
    company = Company()
    alone = company.delivery_bytes
    company.heard(NOW_MS)
    company.begin_turn(NOW_MS)
    assert company.delivery_bytes > alone
    assert company.is_there(NOW_MS + 199) and not company.is_there(NOW_MS + 200)
    company.begin_turn(NOW_MS + 200)
    assert company.delivery_bytes == alone
