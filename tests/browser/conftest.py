"""A browser for the tests of a file; without one they are skipped, which says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import EXECUTABLE, Chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if EXECUTABLE is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    profile: Path = tmp_path_factory.mktemp("profile")
    with Chromium(profile) as started:
        if (why := started.why_not()) is not None:
            pytest.skip(f"Chromium does not run here: {why}")
        yield started
