"""Commands in the documentation that ask a running broker: fences marked `console live`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embermq.testing import EmbeddedBroker
from tests.docs.test_commands import commands_in, pattern
from tests.docs.test_examples import REPOSITORY

PAGES = [
    page
    for page in sorted((REPOSITORY / "docs").rglob("*.md"))
    if commands_in(page.read_text(), "console live")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_do_what_the_page_says(page: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with EmbeddedBroker(persistent=True) as broker:
        environment = {**os.environ, "PATH": path, "EMBERMQ_URL": broker.http_url}
        for command, expected in commands_in(page.read_text(), "console live"):
            done = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stderr
            assert re.fullmatch(pattern(expected), done.stdout), f"$ {command}\n{done.stdout}"


def test_there_are_such_pages() -> None:
    assert PAGES
