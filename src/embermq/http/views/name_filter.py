"""Filters on names: a part of the name, or a regular expression."""

from __future__ import annotations

from collections.abc import Callable

from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.http.server.request import bad_request

PATTERN_CHARACTERS_MAX = 100
INVALID = "Pagination parameters are invalid"


def name_filter(pattern: str, use_regex: bool) -> Callable[[str], bool]:
    """Case does not matter, as in RabbitMQ."""
    if not use_regex:
        wanted = pattern.lower()
        return lambda name: wanted in name.lower()
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise bad_request(f"a name pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        return compile_pattern(pattern, ignore_case=True)
    except PatternError:
        raise bad_request(INVALID) from None
