"""LIKE patterns: `%` is any text, `_` any one character; matched from left to right, without backtracking.

Between two `%` stands a text of fixed length. The leftmost place for each of these, behind the one before, is
always as good as any other: so no choice is ever taken back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

PATTERN_CHARACTERS_MAX = 1024  # with `_` in it a part is searched in time that grows with its length

Matcher = Callable[[str], bool]


class Part:
    """A piece of a pattern without `%`."""

    __slots__ = ("length", "plain", "regex")

    def __init__(self, characters: list[str | None]) -> None:
        self.length = len(characters)
        self.plain = "".join(character for character in characters if character is not None)
        self.regex = None
        if None in characters:
            source = "".join("." if character is None else re.escape(character) for character in characters)
            self.regex = re.compile(source, re.DOTALL)

    def find(self, text: str, start: int, end: int) -> int:
        """Where it stands first in text[start:end]; -1: nowhere."""
        if self.regex is None:
            return text.find(self.plain, start, end)
        match = self.regex.search(text, start, end)
        return -1 if match is None else match.start()

    def is_at(self, text: str, start: int) -> bool:
        if self.regex is None:
            return text.startswith(self.plain, start)
        return self.regex.match(text, start) is not None


def parts_of(pattern: str, escape: str | None) -> list[Part]:
    """The pieces between the `%` signs; a pattern without one has a single piece."""
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            parts[-1].append(next(characters))
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append(None if character == "_" else character)
    return [Part(part) for part in parts]


def like(pattern: str, escape: str | None) -> Matcher:
    first, *middle = parts_of(pattern, escape)
    if not middle:
        return lambda text: len(text) == first.length and first.is_at(text, 0)
    last = middle.pop()
    wanted = [part for part in middle if part.length]

    def matches(text: str) -> bool:
        at, end = first.length, len(text) - last.length
        if at > end or not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        for part in wanted:
            at = part.find(text, at, end)
            if at < 0:
                return False
            at += part.length
        return True

    return matches
