"""Names of modules and classes are words that a newcomer knows: AMQP's, Python's, those of the documentation.

The few others stand in the glossary. And pages name modules that exist.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import collections
import errno
import functools
import os
import re
import socket
import ssl
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
SOURCES = REPOSITORY / "src"
LIBRARY = (asyncio, builtins, collections, errno, functools, os, socket, ssl, typing)
# Pages about the sources, which would explain any name by itself; and generated or historic ones.
ABOUT_SOURCES = {"development.md", "how-it-works.md", "flow-control.md", "conformance.md", "differential.md",
                 "foreign-suites.md", "performance.md", "performance-history.md"}  # fmt: skip
# Words of computing that happen to stand on no page.
COMPUTING = """
    admission authenticator bitmap cell cooperative cursor deadline dirty dispatcher embedded engine
    exposition extract fairness fault filesystem finding formatter inbox incremental journal launch
    monitor preallocation predeclare predeclared preflight preview primitive problem publication receipt
    recorded redelivery removal restoration rewrite salvage scan speed staged staging teardown throttle
    transfer undecodable unreachable unreadable pushdown subscription
"""
# Names that nobody would guess, to be replaced: this list may shrink.
ODD = {
    "misfit",
    "pace",
}
ENDINGS = ("", "d", "ed", "r", "er", "or", "ing", "ion", "ation", "able", "al", "ment")


def words(name: str) -> list[str]:
    """Of a name in any of Python's spellings; short ones are of no interest."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [word.lower() for word in found if len(word) > 2]


def stem(word: str) -> str:
    """What `publishing`, `published` and `publisher` have in common, roughly."""
    word = word.removesuffix("s")
    ending = max(
        (each for each in ENDINGS if word.endswith(each) and len(word) - len(each) > 2), key=len, default=""
    )
    return word.removesuffix(ending).removesuffix("e")


@functools.cache
def known() -> set[str]:
    names = [name for module in LIBRARY for name in dir(module)]
    names += sys.stdlib_module_names
    names.append((SOURCES / "embermq" / "wire" / "amqp.toml").read_text())
    pages = [page for page in DOCS.rglob("*.md") if page.name not in ABOUT_SOURCES]
    names += [page.read_text().lower() for page in pages if page.parent.name != "decisions"]
    found = {stem(word) for name in names for word in words(name)}
    return found | {stem(word) for word in words(COMPUTING)}


def names() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        place = str(path.relative_to(SOURCES))
        yield path.stem, place
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, place


def test_names_are_made_of_words_that_are_known_or_explained() -> None:
    strange = {
        (word, place)
        for name, place in names()
        for word in words(name)
        if stem(word) not in known() and word not in ODD
    }
    assert strange == set(), "take a word of AMQP, Unix or Python, or explain it in docs/glossary.md"


def test_odd_names_that_are_gone_are_not_listed() -> None:
    used = {word for name, _ in names() for word in words(name)}
    assert ODD - used == set()


@pytest.mark.parametrize("word", ["glimpse", "turnstile", "hiccup"])
def test_a_metaphor_is_noticed(word: str) -> None:
    assert stem(word) not in known()


def module_named(text: str) -> Path | None:
    for root in (REPOSITORY, SOURCES, SOURCES / "embermq", SOURCES / "pyspark_embermq"):
        if (root / text).exists():
            return root / text
    return None


def test_words_of_the_glossary_are_used_where_it_says() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", (DOCS / "glossary.md").read_text(), re.M)
    for row, where in rows:
        for place in re.findall(r"`([\w/.]+)`", where):
            path = module_named(place)
            assert path is not None, place
            sources = path.rglob("*.py") if path.is_dir() else [path]
            text = "\n".join(source.read_text() for source in sources).lower()
            for word in row.split(", "):
                assert word in text, f"{place} knows no {word}"
    assert len(rows) > 10


def test_pages_name_modules_that_exist() -> None:
    """And the function behind it, where one follows: `x/y.py`: `name`."""
    missing = []
    for page in [REPOSITORY / "README.md", *DOCS.rglob("*.md")]:
        if page.name in ("performance-history.md", "foreign-suites.md"):
            continue
        for text, name in re.findall(r"`([\w/]+/[\w/]+\.pyx?)`(?:: `(\w+)`)?", page.read_text()):
            path = module_named(text)
            if path is None or (name and name not in path.read_text()):
                missing.append((page.name, text, name))
    assert missing == []
