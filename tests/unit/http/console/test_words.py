"""Numbers, sizes and durations as the pages write them."""

from __future__ import annotations

import pytest

from embermq.http.console.words import duration, many, size


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (61, "1 min 1 s")]
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_and_sizes() -> None:
    assert [many(count) for count in (0, 0.25, 2.5, 10.4, 12345)] == ["0", "0.2", "2.5", "10", "12,345"]
    assert [size(count) for count in (0, 1023, 2048, 5.5 * 2**20, 300 * 2**20, 2**41)] == [
        "0 bytes",
        "1,023 bytes",
        "2 KiB",
        "5.5 MiB",
        "300 MiB",
        "2.0 TiB",
    ]
