"""A command that was run: what it printed, and with which code it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Command = Callable[..., tuple[int, str, str]]


def good(found: tuple[int, str, str]) -> str:
    code, out, err = found
    assert code == 0, err
    return out


def rows(found: tuple[int, str, str]) -> Any:
    return json.loads(good(found))


def vhost_in(run: Command) -> str:
    (name,) = [row["name"] for row in rows(run("vhost", "list", "--json")) if row["name"] != "/"]
    return str(name)
