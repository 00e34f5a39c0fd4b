"""The groups of one stream: found by their names, or by a member that settles something or leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.consumer import Consumer
from embermq.broker.level import Entry
from embermq.broker.queue import describe
from embermq.broker.stream_cursor import Cursor
from embermq.broker.stream_group import Group
from embermq.errors import PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.stream import Stream


class Groups:
    __slots__ = ("by_name", "cursors", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.by_name: dict[str, Group] = {}
        self.cursors: dict[object, Cursor] = {}  # of the consumers that belong to one

    def named(self, name: str) -> Group:
        if name not in self.by_name:
            self.by_name[name] = Group(self.stream, name)
        return self.by_name[name]

    def add(self, name: str, cursor: Cursor) -> None:
        self.named(name).add(cursor)
        self.cursors[cursor.consumer] = cursor

    def remove(self, consumer: Consumer) -> bool:
        """True if it was in one, where it may be somebody else's turn now."""
        cursor = self.cursors.pop(consumer, None)
        if cursor is None or cursor.group is None:
            return False
        cursor.group.remove(cursor)
        return True

    def settled(self, entry: Entry, unread: bool = False) -> int:
        """A consumer is done with a message, or (`unread`) has given it back."""
        cursor = self.cursors.get(entry.consumer)
        if cursor is not None and cursor.group is not None:
            cursor.group.settled(cursor, entry.sequence, unread)
        return 0

    def place(self, name: str, offset: int | None) -> None:
        """Where consumers of this name go on; None: they begin anew."""
        group = self.named(name)
        if group.members:
            raise PreconditionFailed(f"'{name}' is reading {describe(self.stream)}")
        group.left_at = offset
        if offset is None:
            group.forget()
            del self.by_name[name]
        else:
            group.write()

    def forget(self) -> None:
        """As if nobody had read under any name."""
        for group in self.by_name.values():
            group.forget()
