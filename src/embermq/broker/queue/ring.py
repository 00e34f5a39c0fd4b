"""A queue of objects in a circular list: cheap at both ends, compiled to array accesses.

The capacity is a power of two; it doubles when full and falls back when a burst has drained, so that a
queue that was once deep does not keep the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SLOTS_MIN = 16
SLOTS_KEPT_MAX = 4096


class Ring:
    __slots__ = ("count", "head", "slots")

    def __init__(self) -> None:
        self.slots: list[Any] = [None] * SLOTS_MIN
        self.head = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.count):
            yield self.slots[(self.head + i) & (len(self.slots) - 1)]

    def grow(self) -> int:
        slots = self.slots
        self.slots = slots[self.head :] + slots[: self.head] + [None] * len(slots)
        self.head = 0
        return 0

    def push_back(self, item: Any) -> int:
        if self.count == len(self.slots):
            self.grow()
        self.slots[(self.head + self.count) & (len(self.slots) - 1)] = item
        self.count += 1
        return 0

    def push_front(self, item: Any) -> int:
        if self.count == len(self.slots):
            self.grow()
        self.head = (self.head - 1) & (len(self.slots) - 1)
        self.slots[self.head] = item
        self.count += 1
        return 0

    def front(self) -> Any:
        """The first item, left where it is; None when empty."""
        return self.slots[self.head] if self.count else None

    def at(self, index: int) -> Any:
        """The item so far behind the first."""
        assert 0 <= index < self.count
        return self.slots[(self.head + index) & (len(self.slots) - 1)]

    def pop_front(self) -> Any:
        """The first item, taken out; the ring must not be empty."""
        assert self.count
        item = self.slots[self.head]
        self.slots[self.head] = None
        self.head = (self.head + 1) & (len(self.slots) - 1)
        self.count -= 1
        if self.count == 0 and len(self.slots) > SLOTS_KEPT_MAX:
            self.clear()
        return item

    def take_at(self, index: int) -> Any:
        """The item so far behind the first, taken out; what is on its shorter side moves up."""
        assert 0 <= index < self.count
        if index == 0:
            return self.pop_front()
        slots, head, mask = self.slots, self.head, len(self.slots) - 1
        item = slots[(head + index) & mask]
        last = self.count - 1
        if index <= last // 2:
            for i in range(index, 0, -1):
                slots[(head + i) & mask] = slots[(head + i - 1) & mask]
            slots[head] = None
            self.head = (head + 1) & mask
        else:
            for i in range(index, last):
                slots[(head + i) & mask] = slots[(head + i + 1) & mask]
            slots[(head + last) & mask] = None
        self.count = last
        return item

    def clear(self) -> None:
        self.slots = [None] * SLOTS_MIN
        self.head = 0
        self.count = 0
