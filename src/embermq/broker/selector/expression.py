"""Expressions of selectors, ready to be computed: True, False or None (unknown) for a condition, or a value.

Three-valued logic as in SQL: what is compared with NULL is unknown, and so is NOT unknown. Values of
different kinds (a text and a number) are not equal, nor unequal: such a comparison is False (JMS 2, 3.8.1.2).
Arithmetic with anything but numbers, and division by zero, give NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
EQUAL, UNEQUAL, LESS, LESS_OR_EQUAL, MORE = range(5)  # their numbers
ARITHMETIC = ("+", "-", "*", "/")
PLUS, MINUS, TIMES = range(3)
NUMBER, TEXT, TRUTH, OTHER = range(4)  # kinds of values


def kind_of(value: object) -> int:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int):
        return NUMBER
    return NUMBER if isinstance(value, float) else OTHER


class Expression:
    """A node of a tree; `values` has what a message says, by the numbers of the names."""

    def value(self, values: list[object]) -> object:
        raise NotImplementedError


class Constant(Expression):
    def __init__(self, constant: object) -> None:
        self.constant = constant

    def value(self, values: list[object]) -> object:
        return self.constant


class Field(Expression):
    def __init__(self, number: int) -> None:
        self.number = number

    def value(self, values: list[object]) -> object:
        return values[self.number]


class Truth(Expression):
    """A condition that is a header: unknown unless it is true or false."""

    def __init__(self, of: Expression) -> None:
        self.of = of

    def value(self, values: list[object]) -> object:
        value = self.of.value(values)
        return value if isinstance(value, bool) else None


class Compared(Expression):
    def __init__(self, sign: str, left: Expression, right: Expression) -> None:
        self.sign = COMPARISONS.index(sign)
        self.left = left
        self.right = right

    def value(self, values: list[object]) -> object:
        one, other = self.left.value(values), self.right.value(values)
        if one is None or other is None:
            return None
        kind, sign = kind_of(one), self.sign
        if kind == OTHER or kind != kind_of(other):
            return False
        if sign == EQUAL:
            return one == other
        if sign == UNEQUAL:
            return one != other
        return kind == NUMBER and is_ordered(sign, one, other)


def is_ordered(sign: int, one: Any, other: Any) -> object:
    if sign == LESS:
        return one < other
    if sign == LESS_OR_EQUAL:
        return one <= other
    return one > other if sign == MORE else one >= other


class TextTest(Expression):
    """IN and LIKE."""

    def __init__(self, of: Expression, test: Callable[[str], bool]) -> None:
        self.of = of
        self.test = test

    def value(self, values: list[object]) -> object:
        text = self.of.value(values)
        if text is None:
            return None
        return isinstance(text, str) and self.test(text)


class Null(Expression):
    def __init__(self, of: Expression) -> None:
        self.of = of

    def value(self, values: list[object]) -> object:
        return self.of.value(values) is None


class NotExpression(Expression):
    def __init__(self, of: Expression) -> None:
        self.of = of

    def value(self, values: list[object]) -> object:
        held = self.of.value(values)
        return None if held is None else held is False


class Together(Expression):
    """AND is decided by one that is False, OR by one that is True; otherwise one that is unknown decides."""

    def __init__(self, conditions: list[Expression], decisive: bool) -> None:
        self.conditions = conditions
        self.decisive = decisive

    def value(self, values: list[object]) -> object:
        decisive: object = self.decisive
        answer: object = not decisive
        for condition in self.conditions:
            held = condition.value(values)
            if held is decisive:
                return held
            if held is None:
                answer = None
        return answer


class Computed(Expression):
    def __init__(self, sign: str, left: Expression, right: Expression) -> None:
        self.sign = ARITHMETIC.index(sign)
        self.left = left
        self.right = right

    def value(self, values: list[object]) -> object:
        one, other = self.left.value(values), self.right.value(values)
        if kind_of(one) != NUMBER or kind_of(other) != NUMBER:
            return None
        try:
            return computed(self.sign, one, other)
        except OverflowError:  # an integer too large to become a float
            return None


def computed(sign: int, one: Any, other: Any) -> object:
    if sign == PLUS:
        return one + other
    if sign == MINUS:
        return one - other
    if sign == TIMES:
        return one * other
    if other == 0:
        return None
    if isinstance(one, int) and isinstance(other, int):  # as in Java: rounded towards zero
        whole = abs(one) // abs(other)
        return whole if (one < 0) == (other < 0) else -whole
    return one / other
