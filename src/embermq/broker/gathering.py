"""A list that is filled and emptied again and again, mostly by one: the first has a place of its own.

Python's list gives its memory back with the last item and asks for it with the next. For a message in a turn
of its own that would be done four times, and be a tenth of all that the message costs.
"""

from __future__ import annotations

from typing import Any


class Gathering:
    __slots__ = ("_first", "_others", "count")

    def __init__(self) -> None:
        self._first: Any = None
        self._others: list[Any] = []
        self.count = 0

    def add(self, item: object) -> int:
        if self.count == 0:
            self._first = item
        else:
            self._others.append(item)
        self.count += 1
        return 0

    def first(self) -> Any:
        if self.count == 0:
            raise IndexError("there is nothing")
        return self._first

    def take(self) -> list[Any]:
        """All of them, in the order in which they came; from now on there are none."""
        taken = [self._first, *self._others] if self.count else []
        self.forget()
        return taken

    def forget(self) -> int:
        self._first = None
        if self.count > 1:
            self._others = []
        self.count = 0
        return 0

    def drop_first(self) -> int:
        """Only the others are left."""
        if self.count <= 1:
            return self.forget()
        self._first = self._others.pop(0)
        self.count -= 1
        return 0

    def put_first(self, items: list[Any]) -> None:
        """Before those that are there."""
        for item in items + self.take():
            self.add(item)
