"""The runner of `make test` with small suites of its own, whose tests know how often they ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.once("the runner of the tests is plain Python")

BEGINNING = """
import os
from pathlib import Path
import pytest

def first_time(name):
    seen = Path(name)
    new = not seen.exists()
    seen.touch()
    return new

def test_steady():
    pass

"""
FLICKERS = "def test_flickers(): assert not first_time('flickers')\n"
KILLS = "def test_kills_its_worker():\n    if first_time('kills'): os._exit(9)\n"
FAILS = "@pytest.mark.parametrize('n', range({count}))\ndef test_fails(n): assert False, n\n"
SKIPS = "def test_skips():\n    if not first_time('skips'): pytest.skip('today')\n    assert False\n"
TEARDOWN = """
@pytest.fixture
def broken():
    yield
    assert not first_time("teardown")

@pytest.mark.parametrize("word", ["a b/c::d[e]", "ä"])
def test_teardown(broken, word): pass
"""


def look(directory: Path, tests: str, *flags: str) -> tuple[int, str]:
    """The exit status of the runner over this suite, and what it printed."""
    (directory / "test_it.py").write_text(BEGINNING + tests)
    # No settings of the run that this test is part of, and no plugins but those it needs: they take seconds.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.second_look", "-q", "-p", "no:cacheprovider", *flags],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
    )
    return done.returncode, done.stdout


def test_without_failures_there_is_no_second_look(tmp_path: Path) -> None:
    status, printed = look(tmp_path, "")
    assert status == 0
    assert "1 passed" in printed and "second look" not in printed


def test_what_fails_only_once_is_named_and_forgiven(tmp_path: Path) -> None:
    status, printed = look(tmp_path, FLICKERS + TEARDOWN)
    assert status == 0, printed
    verdict = printed.partition("FLICKERING, MUST BE FIXED")[2]
    assert "test_it.py::test_flickers\n" in verdict
    assert "test_it.py::test_teardown[a b/c::d[e]]\n" in verdict
    assert "test_steady" not in verdict
    assert "2 passed" in printed  # the second time exactly those two


def test_a_worker_that_died_is_looked_at_again(tmp_path: Path) -> None:
    status, printed = look(tmp_path, KILLS, "-p", "xdist", "-n", "2", "--dist", "loadfile")
    assert "crashed while running" in printed
    assert status == 0, printed
    assert "test_it.py::test_kills_its_worker\n" in printed.partition("FLICKERING, MUST BE FIXED")[2]


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        (FLICKERS + FAILS.format(count=1), "FAILED AGAIN, alone:\n    test_it.py::test_fails[0]\n"),
        (FAILS.format(count=4), "4 tests failed: too many to be the load"),
        (SKIPS, "FAILED AGAIN, alone:\n    test_it.py::test_skips\n"),
        ("import no_such_module\n", "error"),
    ],
    ids=["fails-again", "too-many", "skipped-the-second-time", "not-collected"],
)
def test_everything_else_fails(tmp_path: Path, tests: str, verdict: str) -> None:
    status, printed = look(tmp_path, tests)
    assert status != 0, printed
    assert verdict in printed
    assert "FLICKERING" not in printed
