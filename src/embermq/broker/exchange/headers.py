"""Matching of message headers against the arguments of a binding.

`x-match` says how: `all` (the default) or `any` of the arguments must match, those whose names start with
`x-` left aside; `all-with-x` and `any-with-x` look at these too (`x-match` and `x-via` excepted). An argument
without a value matches whenever the header is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from embermq.broker.queue.arguments import SHOWN_CHARACTERS, term, type_name
from embermq.errors import PreconditionFailed

MODES = ("all", "any", "all-with-x", "any-with-x")


def equal(wanted: object, given: object) -> bool:
    """Equal in value and kind: 1 is not True, and not "1"."""
    return isinstance(wanted, bool) == isinstance(given, bool) and wanted == given


def look_up_key(value: object) -> object:
    """The same for values that are equal, where they can be looked up; None where they cannot."""
    if isinstance(value, bool):
        return (value,)
    return value if isinstance(value, str | int | float | Decimal | bytes) else None


class HeadersPattern:
    __slots__ = ("any", "wanted")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        mode = check_mode(arguments)
        self.any = mode.startswith("any")
        with_x = mode.endswith("-with-x")
        self.wanted = {
            name: value
            for name, value in arguments.items()
            if name not in ("x-match", "x-via") and (with_x or not name.startswith("x-"))
        }

    def matches(self, headers: Mapping[str, object]) -> bool:
        for name, value in self.wanted.items():
            hit = name in headers and (value is None or equal(value, headers[name]))
            if hit == self.any:
                return hit
        return not self.any

    def demanded(self) -> list[tuple[str, object]]:
        """Headers and values (`look_up_key`) of which a message that matches has one; empty where it need
        not have any."""
        found = []
        for name, value in self.wanted.items():
            key = None if value is None else look_up_key(value)
            if key is not None and not self.any:
                return [(name, key)]
            if key is None and self.any:
                return []
            found.append((name, key))
        return found if self.any else []

    def explain(self, headers: Mapping[str, object]) -> tuple[bool, str]:
        """Does it match, and which header decides that."""
        for name, value in self.wanted.items():
            hit = name in headers and (value is None or equal(value, headers[name]))
            if hit == self.any:
                return hit, told(name, value, headers)
        if not self.wanted:
            return not self.any, "the binding asks for no header"
        quantity = "none" if self.any else "all"
        return not self.any, f"{quantity} of the headers that the binding asks for are as asked"


def told(name: str, value: object, headers: Mapping[str, object]) -> str:
    if name not in headers:
        return f"there is no header '{name}'"
    given = headers[name]
    if value is None:
        return f"there is a header '{name}'"
    if equal(value, given):
        return f"the header '{name}' is {shown_value(given)}"
    return f"the header '{name}' is {shown_value(given)}, not {shown_value(value)}"


def shown_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


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
