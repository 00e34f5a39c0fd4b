"""The tokens of a selector: identifiers, literals, operators, each with its place in the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from embermq.errors import PreconditionFailed

KEYWORDS = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

TOKEN = re.compile(
    r"""\s*(?:
      (?P<approximate> (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? [fFdD]?
                     | [0-9]+ [eE][+-]?[0-9]+ [fFdD]? | [0-9]+[fFdD] )
    | (?P<exact>       0[xX][0-9a-fA-F]+[lL]? | [0-9]+[lL]? )
    | (?P<name>        [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<quoted>      "(?:[^"]|"")+" )
    | (?P<text>        '(?:[^']|'')*' )
    | (?P<operator>    <> | <= | >= | [=<>+*/(),.-] )
    | (?P<end>         $ )
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str  # keyword, name, text, exact, approximate, operator, end
    value: object
    at: int  # where it begins in the selector


class SelectorError(PreconditionFailed):
    """A selector that cannot be understood; the text says where."""

    def __init__(self, problem: str, selector: str, at: int) -> None:
        near = selector[at : at + 20]
        where = f"at character {at + 1}, near '{near}'" if near else "at its end"
        super().__init__(f"invalid selector: {problem} ({where})")
        self.at = at


def tokens(selector: str) -> list[Token]:
    """All tokens, the last of kind `end`."""
    found: list[Token] = []
    pos = 0
    while not found or found[-1].kind != "end":
        match = TOKEN.match(selector, pos)
        if match is None or match.lastgroup is None:
            pos += len(selector[pos:]) - len(selector[pos:].lstrip())
            raise SelectorError(unexpected(selector[pos]), selector, pos)
        kind, text = match.lastgroup, match.group(match.lastgroup)
        found.append(token(kind, text, selector, match.start(kind)))
        pos = match.end()
    return found


def unexpected(character: str) -> str:
    if character == "'":
        return "a text without its closing quote"
    if character == '"':
        return "a quoted name without its closing quote"
    return f"unexpected '{character}'"


def token(kind: str, text: str, selector: str, at: int) -> Token:
    match kind:
        case "name":
            keyword = text.upper()
            return Token("keyword", keyword, at) if keyword in KEYWORDS else Token("name", text, at)
        case "quoted":
            return Token("name", text[1:-1].replace('""', '"'), at)
        case "text":
            return Token("text", text[1:-1].replace("''", "'"), at)
        case "approximate":
            return Token(kind, float(text.rstrip("fFdD")), at)
        case "exact":
            return Token(kind, exact(text.rstrip("lL"), selector, at), at)
    return Token(kind, text, at)


def exact(digits: str, selector: str, at: int) -> int:
    """A number in Java's syntax: decimal, hexadecimal with 0x, octal with a leading 0."""
    if digits[:2] in ("0x", "0X"):
        base = 16
    else:
        base = 8 if digits.startswith("0") and len(digits) > 1 else 10
    try:
        # The text is bounded, and so is the time that this takes.
        number = int(digits, base)
    except ValueError:
        raise SelectorError(f"'{digits}' is no octal number", selector, at) from None
    if number > INT64_MAX + 1:  # one more: with a minus before it, it is the least
        raise SelectorError("a number of more than 64 bits", selector, at)
    return number
