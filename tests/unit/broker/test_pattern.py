"""Patterns of names: what is let in, and that what is let in is quick."""

import pytest

from embermq.broker.pattern import PatternError, compile_pattern

REFUSED = [
    "(a+)+$",
    "(a|a)*$",
    "(.*)*x",
    "a*a*a*a*a*b",
    "(a|bc)?" * 14,
    r"(a)\1",
    "^(?!(a+)+b)",
    "x" * 1001,
    "(",
    "[",
    "*",
    "a{99999999999999999999}",
]
ALLOWED = [
    ("", "anything", True),
    (".*", "anything", True),
    ("^", "", True),
    ("^orders", "orders.eu", True),
    ("^orders", "my orders", False),
    ("Orders", "orders", False),
    (r"^(?!amq\.).*", "orders", True),
    (r"^(?!amq\.).*", "amq.gen-x", False),
    ("^(red|green|blue|white|black|brown|grey)\\.", "grey.x", True),
    (r"^a\.[a-z]+\.b\.[0-9]{2,}\.c.*$", "a.x.b.12.c", True),
    (r"x\.*", "y", False),
    ("^a.*|^b.*", "cb", False),
    ("(ab)*c$", "ababc", True),
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize(("pattern", "name", "expected"), ALLOWED)
def test_allowed(pattern: str, name: str, expected: bool) -> None:
    assert (compile_pattern(pattern).search(name) is not None) is expected


def test_the_place_of_a_mistake() -> None:
    with pytest.raises(PatternError, match="unterminated") as refused:
        compile_pattern("ab(c")
    assert refused.value.position == 2
