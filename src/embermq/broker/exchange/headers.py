"""Matching of message headers against the arguments of a binding.

`x-match` says how: `all` (the default) or `any` of the arguments must match, those whose names start with
`x-` left aside; `all-with-x` and `any-with-x` look at these too (`x-match` itself excepted). An argument
without a value matches whenever the header is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from embermq.broker.queue.arguments import term, type_name
from embermq.errors import PreconditionFailed

MODES = ("all", "any", "all-with-x", "any-with-x")


def equal(wanted: object, given: object) -> bool:
    """Equal in value and kind: 1 is not True, and not "1"."""
    return isinstance(wanted, bool) == isinstance(given, bool) and wanted == given


class HeadersPattern:
    __slots__ = ("any", "wanted")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        mode = check_mode(arguments)
        self.any = mode.startswith("any")
        with_x = mode.endswith("-with-x")
        self.wanted = {
            name: value
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        }

    def matches(self, headers: Mapping[str, object]) -> bool:
        for name, value in self.wanted.items():
            hit = name in headers and (value is None or equal(value, headers[name]))
            if hit == self.any:
                return hit
        return not self.any


def check_mode(arguments: Mapping[str, object]) -> str:
    mode = arguments.get("x-match", "all")
    if not isinstance(mode, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(mode)} (value {term(mode)}); expected longstr"
        )
    if mode not in MODES:
        raise PreconditionFailed(
            f"Invalid x-match field value {term(mode)}; expected all, any, all-with-x, or any-with-x"
        )
    return mode
