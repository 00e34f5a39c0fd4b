"""docs/configuration.md tells the truth: every setting of every section, its default, and its flag."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from embermq.cli.main import parser
from embermq.config import SECTIONS, Config
from embermq.config.rule import default_of, settings_in
from embermq.config.settings import TABLES
from embermq.config.toml_text import value_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| `(?P<default>[^`]*)` \| (?:`(?P<flag>--[^`]*)` )?(?P<rest>.*)$", re.MULTILINE
)


def rows(heading: str) -> list[re.Match[str]]:
    """The table below a heading, which is the name of a section or table, or empty for the first."""
    page = PAGE.read_text()
    start = page.index(f"### `{heading}`") if heading else 0
    end = page.find("\n### ", start + 1)
    return list(ROW.finditer(page[start:end]))


def defaults(kind: type) -> dict[str, str]:
    return {name: value_text(default_of(field)).strip('"') for name, field in settings_in(kind).items()}


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("", Config),
        *((f"[{name}]", kind) for name, kind in SECTIONS.items()),
        *((f"[[{name}]]", kind) for name, kind in TABLES.items()),
    ],
)
def test_every_setting_is_described_with_its_default(heading: str, kind: type) -> None:
    assert {row["name"]: row["default"] for row in rows(heading)} == defaults(kind)


def test_every_flag_that_is_named_exists() -> None:
    for row in rows(""):
        if row["flag"]:
            options = parser().parse_args(["serve", row["flag"], str(getattr(Config(), row["name"]))])
            assert getattr(options, row["name"]) is not None


def test_what_a_reload_applies_is_said() -> None:
    for heading, kind in [("", Config), *((f"[{name}]", kind) for name, kind in SECTIONS.items())]:
        for row in rows(heading):
            live = settings_in(kind)[row["name"]].metadata["rule"].live
            assert ("↻" in row["rest"]) == live, row[0]


def test_files_on_the_page_are_files_that_the_broker_takes(tmp_path: Path) -> None:
    from embermq.config import load

    found = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(found) >= 2
    for text in found:
        file = tmp_path / "embermq.toml"
        file.write_text(text)
        tomllib.loads(text)
        load(file)
