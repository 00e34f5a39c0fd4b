"""The order of the tests: what it names exists."""

from __future__ import annotations

from pathlib import Path

from tests.schedule import LONGEST_FIRST, ON_ONE_JAVA_MACHINE, rank_of, unit_of

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_files_that_are_named_exist() -> None:
    named = {name for name in LONGEST_FIRST if name.endswith(".py")} | ON_ONE_JAVA_MACHINE
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


def test_long_files_come_first_and_those_with_one_java_machine_together() -> None:
    kills, rows = "tests/spark/test_kills.py::test_x", "tests/spark/test_rows.py::test_every[a::b]"
    assert unit_of(kills) == unit_of(rows) == LONGEST_FIRST[0]
    assert unit_of("tests/spark/test_something_new.py::test_x") == LONGEST_FIRST[1]
    assert unit_of("tests/unit/test_app.py::test_x[a::b]") == "tests/unit/test_app.py"
    assert rank_of(kills) < rank_of("tests/crash/test_kill.py::test_x") < rank_of("tests/unit/test_app.py::x")
