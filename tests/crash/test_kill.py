"""SIGKILL at any moment: nothing confirmed is lost, nothing acknowledged comes back.

`--cycles N` says how many times brokers are killed in all, `--crash-seed S` repeats one history (its choices;
the moment at which a kill hits cannot be repeated).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.driver import LIVES, History


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--crash-seed")
        histories = max(1, metafunc.config.getoption("--cycles") // LIVES)
        metafunc.parametrize("seed", range(1, histories + 1) if only is None else [only])


@pytest.mark.timeout(600)  # a quarter of a minute on a quiet machine
def test_killed_and_started_again(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    try:
        assert history.run(), "no message was ever confirmed: this history has proven nothing"
    finally:
        history.close()
