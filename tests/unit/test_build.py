"""The code under test is the code we think it is: compiled or interpreted, and not stale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import embermq
from embermq.build import BuildInfo, build_info

PACKAGE = Path(embermq.__file__).parent


def test_the_mode_is_the_expected_one() -> None:
    expected = os.environ.get("EMBERMQ_EXPECT")
    if expected is None:
        pytest.skip("EMBERMQ_EXPECT is not set: this run takes whatever is installed (make test sets it)")
    assert build_info().mode == expected


def test_a_process_started_by_a_test_has_the_same_mode() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "embermq.build"], capture_output=True, text=True, check=True, timeout=60
    )
    assert out.stdout.splitlines()[0] == build_info().mode


def test_no_installation_is_half_compiled() -> None:
    assert build_info().mode != "mixed", build_info()


def test_compiled_modules_are_newer_than_their_sources() -> None:
    """Python prefers an old compiled module to an edited source; `make install` builds it again."""
    stale = []
    for name in build_info().compiled:
        stem = PACKAGE.parent.joinpath(*name.split("."))
        binary = next(stem.parent.glob(f"{stem.name}.*.so"))
        source = ".pyx" if stem.with_suffix(".pyx").exists() else ".py"  # beside a .pyx, a .py is its twin
        sources = [path for suffix in (source, ".pxd") if (path := stem.with_suffix(suffix)).exists()]
        if any(source.stat().st_mtime > binary.stat().st_mtime for source in sources):
            stale.append(name)
    assert not stale


@pytest.mark.parametrize(
    ("compiled", "interpreted", "mode"),
    [
        ((), (), "interpreted"),
        ((), ("a",), "interpreted"),
        (("a",), (), "compiled"),
        (("a",), ("b",), "mixed"),
    ],
)
def test_mode(compiled: tuple[str, ...], interpreted: tuple[str, ...], mode: str) -> None:
    assert BuildInfo(compiled, interpreted).mode == mode
