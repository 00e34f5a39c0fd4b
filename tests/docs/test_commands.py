"""Commands in the documentation are run, and print what the page says they print.

A fence marked `console run` holds lines that begin with `$` and what they print; `…` stands for anything. The
programs of the same page that are marked `python run` have filled the directory `data` before.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import ADDRESSES_IN_EXAMPLES, FENCE, REPOSITORY, examples_in
from tools.brokers import EmberBroker


def commands_in(text: str, info: str = "console run") -> list[tuple[str, str]]:
    """(command, expected output) of every fence that is marked so."""
    found: list[tuple[str, str]] = []
    for fence in FENCE.finditer(text):
        if fence["info"].strip() == info:
            for line in fence["text"].splitlines(keepends=True):
                if line.startswith("$ "):
                    found.append((line[2:].strip(), ""))
                else:
                    command, output = found[-1]
                    found[-1] = command, output + line
    return found


def pages() -> list[Path]:
    found = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [page for page in found if commands_in(page.read_text())]


def pattern(expected: str) -> str:
    return r"[^\n]*".join(re.escape(part) for part in expected.split("…"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    with EmberBroker(tmp_path / "data") as broker:
        for example in examples_in(page.name, text):
            program = example.program.replace(ADDRESSES_IN_EXAMPLES[0], f"{broker.host}:{broker.port}")
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command, expected in commands_in(text):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert re.fullmatch(pattern(expected), done.stdout), f"$ {command}\n{done.stdout}{done.stderr}"


def test_there_are_commands_to_run() -> None:
    assert "durability.md" in [page.name for page in pages()]


def test_commands_and_their_output_are_found() -> None:
    text = "```console run\n$ a b\n1\n2…\n$ c\n```\n```console\n$ d\n```\n"
    assert commands_in(text) == [("a b", "1\n2…\n"), ("c", "")]
    assert re.fullmatch(pattern("1\n2…\n"), "1\n234\n")
    assert not re.fullmatch(pattern("1\n2…\n"), "1\n2\n3\n")
