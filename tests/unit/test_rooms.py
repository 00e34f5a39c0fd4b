"""Who may import whom: the architecture's rooms, read off the sources' import statements.

Calls upward go through small Protocols owned by the lower room, so an import in the wrong direction is a
mistake in the design and not a detail. `cimport` lines of .pxd and .pyx files count like imports.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "embermq"

# A room may import itself, `errors`, `clock`, `deadline`, and what is named here.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "deadline": set(),
    "build": set(),
    "wire": set(),
    "store": set(),
    "config": set(),
    "plugin": {"wire"},  # the interface of plug-ins
    "broker": {"wire", "store", "plugin"},
    "amqp": {"wire", "broker"},
    "net": {"amqp"},
    "http": {"broker"},
    "client": {"wire"},
    # The command line is a user of the broker like any other; only starting one needs the composition root.
    # `embermq store` reads the files of a stopped broker, so it has to know what a queue's records mean.
    "cli": {"client", "app", "config", "build", "broker", "store"},
    # A test looks into the broker that it has started.
    "testing": {"app", "client", "config", "broker", "amqp", "net"},
    "__main__": {"cli"},
    "__init__": set(),
}
# The composition root is the only module that knows every room.
EVERYTHING = {"app"}

CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s|cimport\s+([\w.]+))", re.MULTILINE)


def sources() -> list[Path]:
    return sorted(path for suffix in ("py", "pyi", "pxd", "pyx") for path in PACKAGE.rglob(f"*.{suffix}"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.partition(".")[0]


def rooms_in_python(text: str, package: list[str]) -> set[str]:
    """The rooms that Python source imports; `package` is where relative imports start."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from embermq import wire` names the room after `import`.
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {room for name in names if (room := room_in(name))}
    return found


def rooms_in_cython(text: str) -> set[str]:
    """The rooms that Cython source imports; absolute names only, relative ones stay inside their room."""
    return {room for match in CIMPORT.finditer(text) if (room := room_in(match[1] or match[2]))}


def room_in(name: str) -> str:
    """ "embermq.wire.frame" -> "wire"; "" for modules of other people and for names of the package itself."""
    parts = name.split(".")
    if parts[0] != "embermq" or len(parts) < 2 or parts[1].startswith("__"):
        return ""
    return parts[1]


def imported_rooms(path: Path) -> set[str]:
    text = path.read_text()
    if path.suffix in (".pxd", ".pyx"):
        return rooms_in_cython(text)
    return rooms_in_python(text, ["embermq", *path.relative_to(PACKAGE).parent.parts])


def test_imports_stay_within_the_rooms() -> None:
    wrong = []
    for path in sources():
        room = room_of(path)
        if room in EVERYTHING:
            continue
        assert room in ROOMS, f"{room} is not a room of the architecture"
        for other in sorted(imported_rooms(path) - {room, "errors", "clock", "deadline"} - ROOMS[room]):
            wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert wrong == []


def test_there_are_sources_to_look_at() -> None:
    assert {"wire", "errors"} <= {room_of(path) for path in sources()}


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("import embermq.wire.frame", {"wire"}),
        ("from embermq.broker.queue.queue import Queue", {"broker"}),
        ("from embermq import net, wire", {"net", "wire"}),
        ("from embermq import __version__", set()),
        ("from . import frame", {"wire"}),
        ("from .. import store", {"store"}),
        ("from ..store.log import Log", {"store"}),
        ("def late():\n    from embermq.http import views", {"http"}),
        ("import asyncio, http.client", set()),
    ],
)
def test_python_imports_are_seen(text: str, rooms: set[str]) -> None:
    assert rooms_in_python(text, ["embermq", "wire"]) == rooms


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("from embermq.wire.kernel cimport Output", {"wire"}),
        ("cimport embermq.store.log.log", {"store"}),
        ("    from embermq.net.shell import Shell", {"net"}),
        ("from libc.string cimport memcpy", set()),
    ],
)
def test_cython_imports_are_seen(text: str, rooms: set[str]) -> None:
    assert rooms_in_cython(text) == rooms
