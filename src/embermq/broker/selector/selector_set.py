"""A set of selectors, asked together: which of them fit a message?

The fields that they name are read once for all of them. A selector that demands `name = 'value'` (or `name IN
(...)`), alone or joined to more by AND, is found by a look-up of the message's value: so thousands of those
cost as much as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embermq.broker.selector.evaluation import evaluation
from embermq.broker.selector.fields import Fields
from embermq.broker.selector.selector import Selector, ask
from embermq.broker.selector.syntax import And, Comparison, In, Literal, Name, Node

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.selector.expression import Expression

NAMES_SPARE = 16  # that no selector uses any more, before the set is made anew


class Member:
    """A selector of the set, and what it stands for."""

    __slots__ = ("condition", "owner", "selector")

    def __init__(self, selector: Selector, owner: object) -> None:
        self.selector = selector
        self.owner = owner
        self.condition: Expression = selector.condition


class SelectorSet:
    def __init__(self) -> None:
        self.members: dict[object, Member] = {}  # by owner
        self.begin()

    def begin(self) -> None:
        self.fields = Fields()
        self.numbers: dict[Name, int] = {}
        self.tables: dict[int, dict[object, list[Member]]] = {}  # by the number of a name: by its value
        self.others: list[Member] = []

    def add(self, selector: Selector, owner: object) -> None:
        assert owner not in self.members
        member = self.members[owner] = Member(selector, owner)
        self.enter(member)

    def enter(self, member: Member) -> None:
        member.condition = evaluation(member.selector.tree, self.numbers)
        for name in list(self.numbers)[self.fields.count :]:
            ask(self.fields, name)
        demand = demanded(member.selector.tree)
        if demand is None:
            self.others.append(member)
            return
        table = self.tables.setdefault(self.numbers[demand[0]], {})
        for value in demand[1]:
            table.setdefault(key_of(value), []).append(member)

    def remove(self, owner: object) -> None:
        member = self.members.pop(owner)
        demand = demanded(member.selector.tree)
        if demand is None:
            self.others.remove(member)
        else:
            number = self.numbers[demand[0]]
            table = self.tables[number]
            for value in demand[1]:
                table[key_of(value)].remove(member)
                if not table[key_of(value)]:
                    del table[key_of(value)]
            if not table:
                del self.tables[number]
        if len(self.numbers) > NAMES_SPARE or not self.members:
            self.forget_names()

    def forget_names(self) -> None:
        """Those that no selector uses any more, if they are many."""
        used = {name for member in self.members.values() for name in member.selector.names}
        if len(self.numbers) > len(used) + NAMES_SPARE or not used:
            self.begin()
            for member in self.members.values():
                self.enter(member)

    def fitting(self, message: Message, redelivered: bool = False) -> list[Any]:
        """The owners of the selectors that fit the message."""
        return self.fitting_values(self.fields.of_message(message, redelivered))

    def fitting_values(self, values: list[object]) -> list[Any]:
        found: list[Any] = []
        for number, table in self.tables.items():
            value = values[number]
            if value is not None:
                members = table.get(key_of(value))
                if members is not None:
                    add_fitting(members, values, found)
        if self.others:
            add_fitting(self.others, values, found)
        return found


def add_fitting(members: list[Member], values: list[object], found: list[Any]) -> None:
    for member in members:
        if member.condition.value(values) is True:
            found.append(member.owner)


def key_of(value: object) -> object:
    """Equal for values that selectors call equal, and for no others: 5 is 5.0, but not TRUE."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return (value,)
    return value if isinstance(value, (int, float)) else None


def demanded(node: Node) -> tuple[Name, tuple[object, ...]] | None:
    """A name that must have one of some values where the condition is true."""
    if isinstance(node, And):
        return next((found for part in node.conditions if (found := demanded(part)) is not None), None)
    if isinstance(node, In) and isinstance(node.value, Name):
        return node.value, tuple(node.among)
    if isinstance(node, Comparison) and node.operator == "=":
        for name, literal in ((node.left, node.right), (node.right, node.left)):
            if isinstance(name, Name) and isinstance(literal, Literal) and literal.value is not None:
                return name, (literal.value,)
    return None
