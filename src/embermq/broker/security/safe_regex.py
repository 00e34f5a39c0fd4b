"""Regular expressions that users give, matched against names: in permissions, policies and filters.

RE2 matches in a time that is linear in the name, whatever the pattern, so a pattern such as `(a+)+$` stalls
no client; its syntax and its meaning of `\\w` and `$` are close to those of RabbitMQ's. It knows no lookahead
and no lookbehind, which RabbitMQ's own documentation uses (`^(?!amq\\.).*`). Such patterns go to Python's
`re`, which backtracks: the worst number of steps is worked out first, and a pattern that may take more than
STEPS_MAX is refused. Where RE2 is not installed (it has no wheels for musl), that holds for every pattern.

The count of steps: `k` repetitions, one after the other, try at most (n + k over k) ways to divide a name of
n characters; choices (`?`, `|`) multiply, and each way compares every character of the pattern at most once.
What repeats something that itself repeats or branches is refused, however short.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any

try:
    import re2
except ImportError:  # no wheel for this platform
    re2 = None

NAME_CHARACTERS_MAX = 255
STEPS_MAX = 300_000  # some milliseconds
PATTERN_CHARACTERS_MAX = 1000
EXPANDED_CHARACTERS_MAX = 8000  # with the names of users and the like put in
RE2_BYTES_MAX = 256 * 1024  # of one compiled pattern; so large ones take 3 ms for a name at the worst

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE", "NEGATE"}
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
ASSERTIONS = {"ASSERT", "ASSERT_NOT"}

Matches = Callable[[str], bool]  # is there a match anywhere in the name?


class PatternError(ValueError):
    """No regular expression, or one that may take too long; `position` is where it goes wrong."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__(text)
        self.position = position


def compile_pattern(
    pattern: str, *, ignore_case: bool = False, characters_max: int = PATTERN_CHARACTERS_MAX
) -> Matches:
    if len(pattern) > characters_max:
        raise PatternError(f"a pattern has at most {characters_max} characters")
    try:
        pattern.encode("utf-8")
    except UnicodeEncodeError:
        raise PatternError("a pattern is valid Unicode") from None
    return linear(pattern, ignore_case) or backtracking(pattern, ignore_case)


# -- RE2


def linear(pattern: str, ignore_case: bool) -> Matches | None:
    """None for what RE2 does not know."""
    if re2 is None:
        return None
    options = re2.Options()
    options.max_mem = RE2_BYTES_MAX
    options.case_sensitive = not ignore_case
    options.never_capture = True
    options.log_errors = False
    try:
        search = re2.compile(pattern, options).search
    except re2.error:
        return None
    return lambda name: search(octets_of(name)) is not None


def octets_of(name: str) -> bytes:
    """UTF-8; octets of a name that are no UTF-8 (AMQP allows them) each stand for U+FFFD."""
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode("utf-8")


# -- Python's re


def backtracking(pattern: str, ignore_case: bool) -> Matches:
    """A `.*` at either end is left out: it says nothing there, and costs much."""
    flags = re.ASCII | (re.IGNORECASE if ignore_case else re.NOFLAG)
    trimmed = without_idle_ends(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `[[:alpha:]]` means something else to Python
            parsed = sre.parse(trimmed, flags)
            search = re.compile(trimmed, flags).search
    except re.error as error:
        raise PatternError(error.msg, error.pos or 0) from None
    except (RecursionError, OverflowError, ValueError, Warning) as error:  # ValueError: flags at odds, `(?u)`
        raise PatternError(str(error)) from None
    if steps_of(parsed) > STEPS_MAX:
        raise PatternError("the pattern has so many repetitions and choices that it may take too long")
    return lambda name: search(name[:NAME_CHARACTERS_MAX]) is not None


class Cost:
    """Of a pattern, or of a part of it."""

    def __init__(self) -> None:
        self.repetitions = 0
        self.choices = 1
        self.characters = 0

    def add(self, other: Cost) -> None:
        self.repetitions += other.repetitions
        self.choices *= other.choices
        self.characters += other.characters

    @property
    def steps(self) -> int:
        ways = math.comb(NAME_CHARACTERS_MAX + self.repetitions, self.repetitions) * self.choices
        return ways * min(max(self.characters, 1), NAME_CHARACTERS_MAX)


def without_idle_ends(pattern: str) -> str:
    if "|" in pattern:
        return pattern  # an end may be that of one choice only
    trimmed = re.sub(r"^\^?\.\*(?![?+*])", "", pattern)
    return trimmed if trimmed.endswith("\\.*") else trimmed.removesuffix(".*$").removesuffix(".*")


def steps_of(parsed: Any) -> int:
    """At worst. What a pattern looks for first, and nothing but its place before it, is looked for once."""
    rest = list(parsed)
    is_anchored = bool(rest) and str(rest[0][0]) == "AT" and "BEGINNING" in str(rest[0][1])
    del rest[:is_anchored]
    steps = 0
    while rest and str(rest[0][0]) in ASSERTIONS:
        steps += cost_of(rest.pop(0)[1][1]).steps
    steps += cost_of(rest).steps
    return steps if is_anchored else steps * (NAME_CHARACTERS_MAX + 1)


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
        elif kind in ASSERTIONS:
            cost.add(cost_of(argument[1]))
        elif kind == "BRANCH":
            cost.add(cost_of_branches([cost_of(branch) for branch in argument[1]]))
        elif kind in SINGLE:
            cost.characters += 1
        elif kind != "AT":
            raise PatternError("a pattern of names has no references to its groups")
    return cost


def cost_of_branches(branches: list[Cost]) -> Cost:
    cost = Cost()
    cost.repetitions = max(branch.repetitions for branch in branches)
    cost.choices = sum(branch.choices for branch in branches)
    cost.characters = sum(branch.characters for branch in branches)
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
