"""Filters on names: a part of the name, or a regular expression that cannot take for ever.

Python's `re` backtracks, and a pattern such as `(a+)+$` makes it try for longer than the broker will live.
So only patterns are let in whose cost is bounded: no repetition of what itself repeats or branches, no
references back, no looking around, and few repetitions and branches altogether.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any

from embermq.http.request import bad_request

PATTERN_CHARACTERS_MAX = 100
LONG_REPETITIONS_MAX = 2  # `*`, `+`, `{2,5}`: each multiplies the cost by the length of the name
CHOICES_MAX = 6  # `?` and `|`: each doubles it

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE", "NEGATE"}
INVALID = "Pagination parameters are invalid"


def name_filter(pattern: str, use_regex: bool) -> Callable[[str], bool]:
    """Case does not matter, as in RabbitMQ."""
    if not use_regex:
        wanted = pattern.lower()
        return lambda name: wanted in name.lower()
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise bad_request(f"a name pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    # At the ends of a pattern that may match anywhere these say nothing, and cost much.
    trimmed = pattern.removeprefix("^.*").removeprefix(".*")
    trimmed = trimmed if trimmed.endswith("\\.*") else trimmed.removesuffix(".*$").removesuffix(".*")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = sre.parse(trimmed, re.IGNORECASE)
            compiled = re.compile(trimmed, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError):
        raise bad_request(INVALID) from None
    check(parsed, Cost())
    return lambda name: compiled.search(name) is not None


class Cost:
    def __init__(self) -> None:
        self.repetitions = 0
        self.choices = 0


def check(parsed: Any, cost: Cost) -> None:
    for operation, argument in parsed:
        kind = str(operation)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            check_repetition(argument, cost)
        elif kind == "SUBPATTERN":
            check(argument[3], cost)
        elif kind == "BRANCH":
            cost.choices += len(argument[1])
            for branch in argument[1]:
                check(branch, cost)
        elif kind not in SINGLE and kind != "AT":
            raise bad_request("a name pattern has no references, no looking around and no atomic groups")
    if cost.repetitions > LONG_REPETITIONS_MAX or cost.choices > CHOICES_MAX:
        raise bad_request("a name pattern has at most two repetitions and six choices")


def check_repetition(argument: Any, cost: Cost) -> None:
    _, most, repeated = argument
    if most == 1:
        cost.choices += 1
        check(repeated, cost)
        return
    cost.repetitions += 1
    if len(repeated) != 1 or str(repeated[0][0]) not in SINGLE:
        raise bad_request("a name pattern repeats single characters only")
