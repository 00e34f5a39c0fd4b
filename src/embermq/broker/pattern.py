"""Regular expressions of other people, matched against names: only such as cannot take for ever.

Python's `re` backtracks, and a pattern such as `(a+)+$` makes it try for longer than the broker will live.
So the worst number of steps is worked out before a pattern is let in. Repetitions multiply: `k` of them, one
after the other, try at most (n + k over k) ways to divide a name of n characters. Choices (`?`, `|`)
multiply, too. What repeats something that itself repeats or branches is refused, however short.
"""

from __future__ import annotations

import math
import re
import warnings
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any

NAME_CHARACTERS_MAX = 255
STEPS_MAX = 20_000_000  # a fraction of a second
PATTERN_CHARACTERS_MAX = 1000

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE", "NEGATE"}
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
LOOKS = {"ASSERT", "ASSERT_NOT"}


class PatternError(ValueError):
    """No regular expression, or one that may take too long; `position` is where it goes wrong."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(text)
        self.position = position


class Cost:
    def __init__(self) -> None:
        self.repetitions = 0
        self.choices = 1

    def add(self, other: Cost) -> None:
        self.repetitions += other.repetitions
        self.choices *= other.choices

    @property
    def steps(self) -> int:
        return math.comb(NAME_CHARACTERS_MAX + self.repetitions, self.repetitions) * self.choices


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """For `search`. A `.*` at either end is left out: it says nothing there, and costs much."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise PatternError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    trimmed = without_idle_ends(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = sre.parse(trimmed, flags)
            compiled = re.compile(trimmed, flags)
    except re.error as error:
        raise PatternError(error.msg, error.pos or 0) from None
    except (RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from None
    cost = cost_of(parsed)
    if not is_anchored(parsed):
        cost.repetitions += 1
    if cost.steps > STEPS_MAX:
        raise PatternError("the pattern has so many repetitions and choices that it may take too long")
    return compiled


def without_idle_ends(pattern: str) -> str:
    if "|" in pattern:
        return pattern  # an end may be that of one choice only
    trimmed = pattern.removeprefix("^.*").removeprefix(".*")
    return trimmed if trimmed.endswith("\\.*") else trimmed.removesuffix(".*$").removesuffix(".*")


def is_anchored(parsed: Any) -> bool:
    return len(parsed) > 0 and str(parsed[0][0]) == "AT" and "BEGINNING" in str(parsed[0][1])


def cost_of(parsed: Any) -> Cost:
    """Of a sequence: everything in it multiplies."""
    cost = Cost()
    for operation, argument in parsed:
        kind = str(operation)
        if kind in REPEATS:
            cost.add(cost_of_repetition(argument))
        elif kind == "SUBPATTERN":
            cost.add(cost_of(argument[3]))
        elif kind == "ATOMIC_GROUP":
            cost.add(cost_of(argument))
        elif kind in LOOKS:
            cost.add(cost_of(argument[1]))
        elif kind == "BRANCH":
            cost.add(cost_of_branches([cost_of(branch) for branch in argument[1]]))
        elif kind not in SINGLE and kind != "AT":
            raise PatternError("a pattern of names has no references to its groups")
    return cost


def cost_of_branches(branches: list[Cost]) -> Cost:
    cost = Cost()
    cost.repetitions = max(branch.repetitions for branch in branches)
    cost.choices = sum(branch.choices for branch in branches)
    return cost


def cost_of_repetition(argument: Any) -> Cost:
    _, most, repeated = argument
    cost = cost_of(repeated)
    if most == 1:
        cost.choices += 1
        return cost
    if cost.repetitions or cost.choices > 1:
        raise PatternError("a pattern of names repeats nothing that itself repeats or branches")
    cost.repetitions = 1
    return cost
