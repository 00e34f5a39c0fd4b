"""Reply codes, scopes and texts: the tree in the module's docstring is the truth."""

from __future__ import annotations

import re

import pytest

from embermq import errors
from embermq.errors import AMQPError, NotFound
from embermq.wire import constants

TREE = re.findall(r"-- (\w+) +(\d+) +(channel|connection)", errors.__doc__ or "")


def test_every_kind_is_in_the_tree() -> None:
    assert {name for name, _, _ in TREE} == {kind.__name__ for kind in AMQPError.__subclasses__()}


@pytest.mark.parametrize(("name", "code", "scope"), TREE, ids=[name for name, _, _ in TREE])
def test_kinds_are_as_the_tree_says(name: str, code: str, scope: str) -> None:
    error = getattr(errors, name)("why")
    assert (error.reply_code, error.scope) == (int(code), scope)
    assert error.reply_text == f"{error.label} - why"
    assert str(error) == f"{code} {error.label} - why"
    assert getattr(constants, error.label, int(code)) == int(code)


def test_scope_and_blame_can_be_given() -> None:
    error = NotFound("", scope="connection", blame=7)
    assert (error.scope, error.blame, error.reply_text) == ("connection", 7, "NOT_FOUND")
