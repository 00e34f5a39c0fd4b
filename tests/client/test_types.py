"""Users' code is checked by mypy --strict and by pyright: what is right passes, what is wrong is found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import embermq

CODE = Path(__file__).parent / "users_code"
GOOD, BAD = CODE / "good.py", CODE / "bad.py"
pytestmark = pytest.mark.once("type checkers read the sources")


def wrong_lines() -> set[int]:
    lines = BAD.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def run(*command: str) -> str:
    environment = os.environ | {"MYPYPATH": str(sources()), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def sources() -> Path:
    return Path(embermq.__file__).parents[1]


def test_mypy(tmp_path: Path) -> None:
    found = run("mypy", "--strict", f"--cache-dir={tmp_path}", str(GOOD), str(BAD))
    errors = re.findall(r"(\w+)\.py:(\d+): error", found)
    assert {int(line) for name, line in errors if name == "bad"} == wrong_lines(), found
    assert {name for name, _ in errors} == {"bad"}, found


def test_pyright(tmp_path: Path) -> None:
    for source in (GOOD, BAD):
        shutil.copy(source, tmp_path)
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(sources())]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    report = json.loads(run("pyright", "--outputjson", "--project", str(tmp_path)))
    found = [
        (Path(one["file"]).stem, one["range"]["start"]["line"] + 1, one["message"])
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert report["summary"]["filesAnalyzed"] == 2, report["summary"]
    assert {line for name, line, _ in found if name == "bad"} == wrong_lines(), found
    assert [one for one in found if one[0] != "bad"] == []
