"""The publisher's half of a channel: what was published, what of it is safe, what is confirmed."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from embermq.amqp.deliveries import Deliveries
from embermq.amqp.link import Link
from embermq.broker.queue import Queue
from embermq.wire import methods
from embermq.wire.frame import method_frame

if TYPE_CHECKING:
    from embermq.amqp.connection import Connection


SOMEWHERE: tuple[Queue, ...] = ()  # stands for queues that are not all known


class Confirming(Deliveries):
    __slots__ = (
        "closing",
        "confirm_pending",
        "confirmed",
        "confirming",
        "connection",
        "kept_in",
        "link",
        "nacks",
        "number",
        "published",
        "safe",
        "syncs_under_way",
        "turned_away",
        "unsafe",
    )

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__()
        self.connection = connection
        self.link: Link = connection
        self.number = number
        self.closing = False  # channel.close sent, close-ok awaited
        self.confirming = self.confirm_pending = False
        self.published = self.confirmed = 0
        self.safe = 0  # publishes up to here need no further sync
        self.unsafe = False  # some publish since the last end of turn is not on disk yet
        self.kept_in = SOMEWHERE  # the queues which that went to
        self.syncs_under_way = 0
        self.nacks: deque[int] = deque()  # publishes that a full queue refused
        self.turned_away = False  # there was one, with confirms or without

    def send(self, method: methods.Method) -> None:
        self.link.out.write(method_frame(self.number, method))
        self.link.touch()

    # -- confirms

    def count_published(self, count: int) -> int:
        """So many more are to be confirmed."""
        self.published += count
        if not self.confirm_pending:
            self.confirm_pending = True
            self.link.confirming_channels.append(self)
            self.link.turn.confirms += 1
            self.link.touch()
        return 0

    def keep(self, queues: tuple[Queue, ...]) -> int:
        """What was published just now is not safe before it is on disk in these queues, or gone from them."""
        if not self.unsafe:
            self.unsafe = True
            self.kept_in = queues
        elif self.kept_in is not queues:
            self.kept_in = SOMEWHERE
        return 0

    def put_confirms(self) -> int:
        """At the end of a turn: confirm what is safe, and have the rest synced.

        Confirms go out in order, many as one. A confirmed persistent message is on disk in every durable
        queue that it reached, or was done with there before it was written; what comes behind one that is not
        waits with it.
        """
        self.confirm_pending = False
        unsafe = self.unsafe
        if unsafe:
            self.unsafe = False
            turn = self.link.turn
            storage = self.connection.broker.storage
            assert storage is not None
            unsafe = not (turn.synced or storage.spares(self.kept_in, turn.count))
            if unsafe:
                self.syncs_under_way += 1
                storage.when_safe(partial(self.on_safe, self.published))
        if not unsafe and self.syncs_under_way == 0:
            self.safe = self.published
        self.put_ack()
        return 0

    def on_safe(self, published: int) -> None:
        """Everything published up to this number has reached the disk."""
        self.syncs_under_way -= 1
        self.safe = published
        if self.syncs_under_way == 0 and not self.unsafe:
            self.safe = self.published
        if not self.closing:
            self.put_ack()
            self.link.touch()

    def refused(self) -> int:
        """A full queue would not have the message published last; no confirm for it, but the contrary."""
        self.turned_away = True
        if self.confirming and (not self.nacks or self.nacks[-1] != self.published):
            self.nacks.append(self.published)
        return 0

    def put_nacks(self) -> None:
        """Acks up to each refused publish, and a nack for it."""
        while self.nacks and self.nacks[0] <= self.safe and not self.closing:
            tag = self.nacks.popleft()
            if tag - 1 > self.confirmed:
                self.link.out.put_ack(self.number, tag - 1, tag - 1 - self.confirmed > 1)
            self.send(methods.BasicNack(tag))
            self.confirmed = tag

    def put_ack(self) -> int:
        if self.nacks:
            self.put_nacks()
        if self.safe > self.confirmed and not self.closing:
            self.link.out.put_ack(self.number, self.safe, self.safe - self.confirmed > 1)
            self.confirmed = self.safe
        return 0
