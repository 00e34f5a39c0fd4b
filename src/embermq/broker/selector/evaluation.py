"""Evaluation of selectors: the tree of the syntax becomes an expression that is computed for each message."""

from __future__ import annotations

from embermq.broker.selector.expression import (
    Compared,
    Computed,
    Constant,
    Expression,
    Field,
    NotExpression,
    Null,
    TextTest,
    Together,
    Truth,
)
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


def evaluation(node: Node, numbers: dict[Name, int]) -> Expression:
    """What to compute; `numbers` says where in the values each name is, and gains those that are new."""
    match node:
        case Literal(value):
            return Constant(value)
        case Name():
            return Field(numbers.setdefault(node, len(numbers)))
        case Comparison(sign, left, right):
            return Compared(sign, evaluation(left, numbers), evaluation(right, numbers))
        case Between(value, low, high):
            tested = evaluation(value, numbers)
            from_low = Compared(">=", tested, evaluation(low, numbers))
            return Together([from_low, Compared("<=", tested, evaluation(high, numbers))], False)
        case In(value, among):
            return TextTest(evaluation(value, numbers), among.__contains__)
        case Like(value, pattern, escape):
            return TextTest(evaluation(value, numbers), like(pattern, escape))
        case IsNull(value):
            return Null(evaluation(value, numbers))
        case Not(condition):
            return NotExpression(Truth(evaluation(condition, numbers)))
        case And(conditions):
            return Together([Truth(evaluation(part, numbers)) for part in conditions], False)
        case Or(conditions):
            return Together([Truth(evaluation(part, numbers)) for part in conditions], True)
        case Arithmetic(sign, left, right):
            return Computed(sign, evaluation(left, numbers), evaluation(right, numbers))
        case Negation(value):
            return Computed("-", Constant(0), evaluation(value, numbers))
