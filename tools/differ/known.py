"""Differences that are meant; docs/differential.md gives the reason for each.

After one of them the two brokers are in different states, so a program is compared no further.
"""

from __future__ import annotations

from typing import Any

INTERNAL_ERROR = 541


def known(step: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The name of the deliberate difference, if it is one."""
    for told in theirs.values():
        if isinstance(told, list) and any(map(is_crash, told)):
            return "RabbitMQ crashes"
    return None


def is_crash(answer: list[Any]) -> bool:
    """The connection is gone without a word, or with INTERNAL_ERROR."""
    if answer[0] == "connection.close":
        return bool(answer[1]["reply-code"] == INTERNAL_ERROR)
    return bool(answer[0] == "gone")
