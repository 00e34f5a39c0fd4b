"""Consumers of a stream that go by one name: one of them reads, the others stand by; where it is, is kept.

What is kept is the first offset that is not acked, or that was given back (requeued). It is written a little
later, many acks at once, and at once when the reader leaves; after a crash a reader may so get again what it
acked in the last half second.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.stream import Stream
    from embermq.broker.stream_cursor import Cursor

WRITE_AFTER_MS = 500
KIND = "stream-offset"  # of definitions


class Group:
    def __init__(self, stream: Stream, name: str) -> None:
        self.stream = stream
        self.name = name  # empty: the consumers that have none, of a stream with one active consumer
        self.members: list[Cursor] = []  # the first one is active
        self.left_at: int | None = None  # where the last active one was
        self.out: deque[int] = deque()  # offsets that are out with the active one, in order
        self.done: set[int] = set()  # those of `out` that are settled before their turn
        self.given_back: int | None = None  # the first offset that the active one did not want to have read
        self.unwritten = False

    @property
    def position(self) -> int | None:
        """The first offset that is not read; None: nobody has read yet."""
        if not self.members:
            return self.left_at
        first = self.out[0] if self.out else self.members[0].offset
        return first if self.given_back is None else min(first, self.given_back)

    def add(self, cursor: Cursor) -> None:
        self.members.append(cursor)
        cursor.group = self
        if len(self.members) == 1:
            self.go_on()
        else:
            cursor.waits = True

    def remove(self, cursor: Cursor) -> None:
        if cursor is not self.members[0]:
            self.members.remove(cursor)
            return
        self.left_at = self.position
        self.out.clear()
        self.done.clear()
        self.given_back = None
        del self.members[0]
        self.write()
        if self.members:
            self.go_on()

    def go_on(self) -> None:
        """The first member reads on where the one before was."""
        active = self.members[0]
        active.waits = False
        if self.left_at is not None:
            active.offset = self.left_at

    def settled(self, cursor: Cursor, offset: int, unread: bool) -> None:
        """The active one has acked or rejected this message, or (`unread`) given it back."""
        if not self.members or cursor is not self.members[0]:
            return
        if unread and (self.given_back is None or offset < self.given_back):
            self.given_back = offset
        out, done = self.out, self.done
        done.add(offset)
        while out and out[0] in done:
            done.discard(out.popleft())
        if not self.unwritten and self.name:
            self.unwritten = True
            turn = self.stream.vhost.turn
            if turn.timetable is None:
                self.write()
            else:
                turn.timetable.ask(turn.now_ms + WRITE_AFTER_MS, self)

    def on_due(self, now_ms: int) -> None:
        if self.unwritten:
            self.write()

    def write(self) -> None:
        self.unwritten = False
        position = self.position
        if self.name and position is not None and not self.stream.deleted:
            self.stream.vhost.catalog.note(*self.key, {"offset": position})

    def forget(self) -> None:
        """As if nobody had read under this name."""
        self.left_at = None
        self.stream.vhost.catalog.note(*self.key, None)

    @property
    def key(self) -> tuple[str, str, str]:
        return KIND, self.stream.id, self.name
