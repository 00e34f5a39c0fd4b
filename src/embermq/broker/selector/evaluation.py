"""Evaluation of selectors: a tree becomes a function of a message's values: True, False or None (unknown).

Three-valued logic as in SQL: what is compared with NULL is unknown, and so is NOT unknown. Values of
different kinds (a text and a number) are not equal, nor unequal: such a comparison is False (JMS 2, 3.8.1.2).
Arithmetic with anything but numbers, and division by zero, give NULL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from embermq.broker.selector.like import like
from embermq.broker.selector.syntax import (
    And,
    Arithmetic,
    Between,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Negation,
    Node,
    Not,
    Or,
)

Values = Sequence[object]  # of the names in a selector, by their numbers
Evaluate = Callable[[Values], object]

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[[Any, Any], object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
NUMBER, TEXT, TRUTH, OTHER = range(4)


def kind_of(value: object) -> int:
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int | float):
        return NUMBER
    return TEXT if isinstance(value, str) else OTHER


def plain(value: object) -> object:
    """A header's value as selectors know it: decimals are numbers."""
    return float(value) if isinstance(value, Decimal) else value


def evaluation(node: Node, numbers: dict[Name, int]) -> Evaluate:
    """What to compute; `numbers` says where in the values each name is, and gains those that are new."""
    match node:
        case Literal(value):
            return lambda values: value
        case Name():
            number = numbers.setdefault(node, len(numbers))
            return lambda values: values[number]
        case Comparison(sign, left, right):
            return comparison(sign, evaluation(left, numbers), evaluation(right, numbers))
        case Between(value, low, high):
            return between(*(evaluation(part, numbers) for part in (value, low, high)))
        case In(value, among):
            return text_test(evaluation(value, numbers), among.__contains__)
        case Like(value, pattern, escape):
            return text_test(evaluation(value, numbers), like(pattern, escape))
        case IsNull(value):
            asked = evaluation(value, numbers)
            return lambda values: asked(values) is None
        case Not(condition):
            return negated(truth(evaluation(condition, numbers)))
        case And(conditions):
            return joined([truth(evaluation(part, numbers)) for part in conditions], False)
        case Or(conditions):
            return joined([truth(evaluation(part, numbers)) for part in conditions], True)
        case Arithmetic(sign, left, right):
            return arithmetic(sign, evaluation(left, numbers), evaluation(right, numbers))
        case Negation(value):
            return arithmetic("-", lambda values: 0, evaluation(value, numbers))


def truth(evaluate: Evaluate) -> Evaluate:
    """A condition that is a header: unknown unless it is true or false."""

    def known(values: Values) -> object:
        value = evaluate(values)
        return value if isinstance(value, bool) else None

    return known


def comparison(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    def equal(values: Values) -> object:
        one, other = left(values), right(values)
        if one is None or other is None:
            return None
        kind = kind_of(one)
        if kind == OTHER or kind != kind_of(other):
            return False
        return (one == other) is (sign == "=")

    if sign in ("=", "<>"):
        return equal
    holds = ORDER[sign]

    def ordered(values: Values) -> object:
        one, other = left(values), right(values)
        if one is None or other is None:
            return None
        return kind_of(one) == NUMBER == kind_of(other) and holds(one, other)

    return ordered


def between(value: Evaluate, low: Evaluate, high: Evaluate) -> Evaluate:
    return joined([comparison(">=", value, low), comparison("<=", value, high)], False)


def text_test(value: Evaluate, test: Callable[[str], bool]) -> Evaluate:
    def tested(values: Values) -> object:
        text = value(values)
        if text is None:
            return None
        return isinstance(text, str) and test(text)

    return tested


def negated(condition: Evaluate) -> Evaluate:
    def opposite(values: Values) -> object:
        held = condition(values)
        return None if held is None else not held

    return opposite


def joined(conditions: list[Evaluate], decisive: bool) -> Evaluate:
    """AND is decided by one that is False, OR by one that is True; otherwise one that is unknown decides."""

    def together(values: Values) -> object:
        answer: object = not decisive
        for condition in conditions:
            held = condition(values)
            if held is decisive:
                return decisive
            if held is None:
                answer = None
        return answer

    return together


def arithmetic(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    def computed(values: Values) -> object:
        one, other = left(values), right(values)
        if kind_of(one) != NUMBER or kind_of(other) != NUMBER:
            return None
        if sign == "/":
            return quotient(one, other)
        try:
            return ARITHMETIC[sign](one, other)
        except OverflowError:  # an integer too large to become a float
            return None

    return computed


def quotient(one: object, other: object) -> object:
    """As in Java: of two integers an integer, rounded towards zero."""
    assert isinstance(one, int | float) and isinstance(other, int | float)
    if other == 0:
        return None
    if isinstance(one, int) and isinstance(other, int):
        whole = abs(one) // abs(other)
        return whole if (one < 0) == (other < 0) else -whole
    try:
        return one / other
    except OverflowError:
        return None
