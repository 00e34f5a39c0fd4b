"""Line numbers of the keys in a TOML file, which Python's own reader does not give.

Only the outline is read (headers, keys, where values end): the file has been understood by `tomllib` before.
"""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.)?""")
BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
# A text, a comment, or a bracket: what decides where a value ends.
PIECE = re.compile(
    r"""
    \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}.*?'{3}
    | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'
    | \#[^\n]*
    | [\[\]{}\n]
    """,
    re.DOTALL | re.VERBOSE,
)


def key_lines(text: str) -> dict[Path, int]:
    """The line of each key and header: ("users", 0, "name") -> 12."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    position = 0
    while True:
        blank = BLANK.match(text, position)
        position = blank.end() if blank else position
        if position >= len(text):
            return found
        line = text.count("\n", 0, position) + 1
        if text[position] == "[":
            repeated = text.startswith("[[", position)
            names, position = dotted_key(text, position + 1 + repeated)
            table = resolved(names, counts, repeated)
            found.setdefault(table, line)
            position = end_of_line(text, position)
        else:
            names, position = dotted_key(text, position)
            if not names:
                return found  # nothing that we know how to read: lines are a courtesy
            found[(*table, *names)] = line
            position = end_of_value(text, position)


def dotted_key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while match := KEY.match(text, position):
        name = match[1]
        names.append(name[1:-1] if name[0] in "\"'" else name)
        position = match.end()
        if not match[2]:
            break
    return tuple(names), position


def resolved(names: tuple[str, ...], counts: dict[Path, int], repeated: bool) -> Path:
    """The path of a header: below [[users]] the newest of them is meant."""
    path: Path = ()
    for number, name in enumerate(names):
        path = (*path, name)
        if repeated and number == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def end_of_value(text: str, position: int) -> int:
    depth = 0
    for piece in PIECE.finditer(text, position):
        if piece[0] in ("[", "{"):
            depth += 1
        elif piece[0] in ("]", "}"):
            depth -= 1
        elif piece[0] == "\n" and depth == 0:
            return piece.end()
    return len(text)


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of a setting, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None
