"""The examples in README.md and docs/ do what the pages say.

A fence marked `python run` is run as a program against a broker; when the next fence is marked `text output`,
the program must print exactly that.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.brokers import EmberBroker

REPOSITORY = Path(__file__).resolve().parents[2]
ADDRESSES_IN_EXAMPLES = ("localhost:5672", "localhost:15672")  # AMQP, HTTP
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    name: str
    program: str
    output: str | None


def examples_in(page: str, text: str) -> Iterator[Example]:
    fences = [(match["info"].strip(), match["text"], match.start()) for match in FENCE.finditer(text)]
    for index, (info, program, start) in enumerate(fences):
        if info != "python run":
            continue
        follower = fences[index + 1] if index + 1 < len(fences) else None
        output = follower[1] if follower is not None and follower[0] == "text output" else None
        line = text.count("\n", 0, start) + 1
        yield Example(f"{page}:{line}", program, output)


def examples() -> list[Example]:
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [
        example
        for page in pages
        for example in examples_in(str(page.relative_to(REPOSITORY)), page.read_text())
    ]


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    """Where a broker really is, in the order of the addresses in the examples."""
    with EmberBroker() as broker:
        yield [f"{broker.host}:{port}" for port in (broker.port, broker.http_port)]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_example(example: Example, addresses: list[str]) -> None:
    program = example.program
    for written, real in zip(ADDRESSES_IN_EXAMPLES, addresses, strict=True):
        program = program.replace(written, real)
    assert program != example.program, "a runnable example must connect to the broker"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if example.output is not None:
        assert done.stdout == example.output


def test_examples_and_their_output_are_found() -> None:
    page = "Text\n```python run\nprint(1)\n```\nmore\n```text output\n1\n```\n```python\nprint(2)\n```\n"
    assert list(examples_in("page.md", page)) == [Example("page.md:2", "print(1)\n", "1\n")]


def test_the_readme_has_one() -> None:
    assert any(example.name.startswith("README.md:") for example in examples())
