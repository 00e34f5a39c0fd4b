"""docs/configuration.md tells the truth: every setting, its default, and its flag."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from embermq.cli.main import parser
from embermq.config import Config

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<default>[^`]*)` \| (?:`(?P<flag>[^`]*)` )?\|", re.MULTILINE)


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer(PAGE.read_text()))


def test_every_setting_is_described_with_its_default() -> None:
    described = {row["name"]: row["default"] for row in rows()}
    assert described == {field.name: str(getattr(Config(), field.name)) for field in fields(Config)}


def test_every_flag_that_is_named_exists() -> None:
    for row in rows():
        if row["flag"]:
            options = parser().parse_args(["serve", row["flag"], str(getattr(Config(), row["name"]))])
            assert getattr(options, row["name"]) is not None
