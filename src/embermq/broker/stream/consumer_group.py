"""Consumer groups of a stream: of the consumers with one name a single one is active; its offset is stored.

What is kept is the first offset that is not acked, or that was given back (requeued). It is written a little
later, many acks at once, and at once when the reader leaves; after a crash a reader may so get again what it
acked in the last half second.

The partitions of a super stream are shared out: among the consumers of the name, in the order in which they
connected, partition n is read by number n modulo how many they are. When one comes or goes the turn may pass
to another; the one that has it first finishes what it has unacknowledged, so that nothing is read twice or
out of order.
"""

from __future__ import annotations

from collections import deque

from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.stream.cursor import Cursor
from embermq.broker.stream.super_stream import partition_number
from embermq.errors import PreconditionFailed

WRITE_AFTER_MS = 500
KIND = "stream-offset"  # of definitions


class Group:
    def __init__(self, stream: Queue, name: str) -> None:
        self.stream = stream
        self.name = name  # empty: the consumers that have none, of a stream with one active consumer
        self.members: list[Cursor] = []
        self.active: Cursor | None = None  # the one of them that reads
        self.left_at: int | None = None  # where the last active one was
        self.out: deque[int] = deque()  # offsets that are out with the active one, in order
        self.done: set[int] = set()  # those of `out` that are settled before their turn
        self.given_back: int | None = None  # the first offset that the active one did not want to have read
        self.unwritten = False

    @property
    def position(self) -> int | None:
        """The first offset that is not read; None: nothing was read yet."""
        if self.active is None:
            return self.left_at
        first = self.out[0] if self.out else self.active.offset
        return first if self.given_back is None else min(first, self.given_back)

    def add(self, cursor: Cursor) -> None:
        self.members.append(cursor)
        cursor.group = self
        cursor.waits = True
        self.share_out()

    def remove(self, cursor: Cursor) -> None:
        self.members.remove(cursor)
        if cursor is self.active:
            self.stop()
        self.share_out()

    def share_out(self) -> None:
        """A consumer came, went or has finished: choose the active one."""
        active, wanted = self.active, self.wanted()
        if active is not None and active is not wanted:
            active.waits = True
            if not self.out:
                self.stop()
        if self.active is None and wanted is not None:
            self.active = wanted
            if self.left_at is not None:
                wanted.drop_block()
                wanted.offset = self.left_at
        if self.active is not None and self.active is wanted:
            wanted.waits = False
            self.stream.mark()

    def wanted(self) -> Cursor | None:
        """The consumer that should be active: of a plain stream, the one that is."""
        number = partition_number(self.stream)
        if self.members and number is not None:
            in_order = sorted(self.members, key=lambda member: member.consumer.connection_number)
            return in_order[number % len(in_order)]
        return self.active or (self.members[0] if self.members else None)

    def stop(self) -> None:
        """The active one reads no more; the next one begins where it was."""
        self.left_at = self.position
        self.active = None
        self.out.clear()
        self.done.clear()
        self.given_back = None
        self.write()

    def settled(self, cursor: Cursor, offset: int, unread: bool) -> None:
        """The active one has acked or rejected this message, or (`unread`) given it back."""
        if cursor is not self.active:
            return
        if unread and (self.given_back is None or offset < self.given_back):
            self.given_back = offset
        out, done = self.out, self.done
        done.add(offset)
        while out and out[0] in done:
            done.discard(out.popleft())
        if cursor.waits and not out:
            self.share_out()
            return
        if not self.unwritten and self.name:
            self.unwritten = True
            turn = self.stream.vhost.turn
            if turn.timers is None:
                self.write()
            else:
                turn.timers.ask(turn.now_ms + WRITE_AFTER_MS, self)

    def on_due(self, now_ms: int) -> None:
        if self.unwritten:
            self.write()

    def write(self) -> None:
        self.unwritten = False
        position = self.position
        if self.name and position is not None and not self.stream.deleted:
            self.stream.vhost.definitions.note(*self.key, {"offset": position})

    def forget(self) -> None:
        """Forget the offset of this name."""
        self.left_at = None
        self.stream.vhost.definitions.note(*self.key, None)

    @property
    def key(self) -> tuple[str, str, str]:
        return KIND, self.stream.id, self.name


class Groups:
    __slots__ = ("by_name", "cursors", "stream")

    def __init__(self, stream: Queue) -> None:
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
        """True if it was in one, where another may become active now."""
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
        """Forget the offsets of all names."""
        for group in self.by_name.values():
            group.forget()
