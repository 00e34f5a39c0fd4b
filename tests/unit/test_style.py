"""The habits of the house that a program can check. ruff and mypy check the rest."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "embermq"
# Names that say nothing: the room is then telling us that it holds two things.
NAMELESS = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "base"}


def modules(*directories: str) -> list[Path]:
    found = [path for name in directories for path in (REPOSITORY / name).rglob("*.py")]
    return sorted(path for path in found if "node_modules" not in path.parts)


def names(paths: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(REPOSITORY)) for path in paths]


def test_modules_have_names_that_say_what_they_are() -> None:
    found = modules("src", "tools", "bench")
    assert names(path for path in found if NAMELESS & set(path.stem.lower().split("_"))) == []


def test_modules_begin_with_their_idea() -> None:
    written = [path for path in modules("src", "tools", "bench", "tests") if path.read_text().strip()]
    assert names(path for path in written if not ast.get_docstring(ast.parse(path.read_text()))) == []


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_interpreted_broker_needs_no_cython() -> None:
    """Types for the compiler belong in the .pxd: `import cython` would be a dependency at run time."""
    needing = [
        path
        for path in modules("src")
        if any(name.split(".")[0].lower() == "cython" for name in imports(path))
    ]
    assert names(needing) == []


def test_importing_the_package_does_no_work() -> None:
    """No sockets, threads or event loops at import time; the version must be cheap to ask for."""
    program = "import sys, embermq; sys.exit('asyncio' in sys.modules or 'socket' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def markdown_pages() -> list[Path]:
    return sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])


def broken_links(page: Path) -> Iterator[str]:
    without_code = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", without_code):
        if "://" not in target and not (page.parent / target).exists():
            yield f"{page.relative_to(REPOSITORY)}: {target}"


def test_links_between_pages_lead_somewhere() -> None:
    assert [link for page in markdown_pages() for link in broken_links(page)] == []


def test_shell_scripts_parse_and_can_be_started() -> None:
    scripts = [*(REPOSITORY / "tools").glob("*.sh"), REPOSITORY / ".ci" / "run"]
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)
    assert names(script for script in scripts if not os.access(script, os.X_OK)) == []
