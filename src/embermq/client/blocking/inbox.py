"""The inbox of a blocking consumer: the connection's thread puts deliveries in, others take them out.

What is taken out is taken by one bytecode (a `for` over `pops`): neither another thread nor an exception out
of a signal handler can come between a message and its `return`.
"""

from __future__ import annotations

import math
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from embermq.client.blocking.waiter import Waiter
from embermq.client.core.channel import ChannelCore
from embermq.client.core.columns import ColumnBatch
from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.requests import cancel_request
from embermq.client.core.stream_progress import Progress
from embermq.wire.methods import BasicConsume

MESSAGES_MAX = 200_000  # of a consumer without acks or prefetch: more are not read before some are taken
ENOUGH_BYTES = 4 * 1024 * 1024  # waiting for more columns than this makes nothing quicker


class Forgotten(weakref.ref[Any]):
    """Posts itself when its object is gone, by a call into C: a signal might interrupt a `__del__`."""

    __slots__ = ("inbox",)
    inbox: BlockingInbox

    def act(self) -> None:
        """No thread can take the messages any more: a loop was left by `break`, say."""
        core = self.inbox.core
        if core.consumers.get(self.inbox.tag) is self.inbox:
            self.inbox.cancelled = True
            core.request(cancel_request(core, self.inbox))


class BlockingInbox(Inbox):
    def __init__(self, core: ChannelCore, consume: BasicConsume, progress: Progress | None = None) -> None:
        super().__init__(consume, progress)
        assert core.commands is not None
        self.core = core
        self.commands = core.commands
        self.ready: deque[Any] = deque()
        self.pops: Iterator[Any] = iter(self.ready.popleft, None)  # raises IndexError when there is nothing
        self.sleepers: deque[Waiter] = deque()

    # -- the thread of the connection

    def wake(self) -> None:
        size = self.buffered_bytes if self.ready else 0
        self.ready.extend(self.take())
        self.buffered_bytes = size
        if not self.has_credit and len(self.ready) > MESSAGES_MAX:
            self.core.engine.congested = self
        self.notify()

    def notify(self) -> None:
        while self.sleepers:
            self.sleepers.popleft().set_result(None)

    def relieve(self) -> None:
        self.buffered_bytes = 0
        self.core.engine.relieve(self)

    def waiting(self) -> list[Message]:
        return [*self.ready, *self.messages]

    def clear(self) -> None:
        super().clear()
        self.ready.clear()

    # -- users' threads

    def watch(self, handle: object) -> None:
        """Cancel the consumer when its user has forgotten the handle."""
        self._watch = Forgotten(handle, self.commands.queue.append)
        self._watch.inbox = self

    def something_to_say(self) -> bool:
        return bool(self.ready) or self.error is not None or self.is_finished()


class ColumnInbox(BlockingInbox):
    """`ready` holds batches, each taken out of the columns when a thread wants one."""

    def __init__(self, core: ChannelCore, consume: BasicConsume) -> None:
        super().__init__(core, consume)
        self.bytes_max = 2 * ENOUGH_BYTES  # one to work with and one that arrives, near to the processor
        self._wanted: int | None = None  # a thread waits for so many messages

    @property
    def count(self) -> int:
        assert self.columns is not None
        handed_out: int = sum(batch.count for batch in list(self.ready))
        return self.columns.count + handed_out

    def wake(self) -> None:
        assert self.columns is not None
        if self._wanted is not None and (
            self.columns.count >= self._wanted
            or self.buffered_bytes >= ENOUGH_BYTES
            or self.error is not None
            or self.cancelled
        ):
            self.hand_out()

    def want(self, messages: int) -> None:
        self._wanted = messages
        self.wake()

    def hand_out(self) -> None:
        """All that is whole; `want` no more."""
        assert self.columns is not None
        self._wanted = None
        if self.columns.count and not self.cancelled and not self.ready:
            batch: ColumnBatch = self.take_columns(self.core.epoch)
            self.ready.append(batch)
        self.core.engine.relieve(self)
        self.notify()

    def end(self, error: Any) -> None:
        super().end(error)
        self.notify()

    def waiting(self) -> list[Message]:
        """None as messages: the broker gives back what is not acked when the channel closes."""
        return []


def await_arrival(inboxes: Sequence[BlockingInbox], deadline_s: float) -> bool:
    """Sleep until one of them has something to say; whether it has."""
    engine, commands = inboxes[0].core.engine, inboxes[0].commands
    waiter = Waiter()
    try:
        for inbox in inboxes:
            inbox.sleepers.append(waiter)
        while not any(inbox.something_to_say() for inbox in inboxes):
            if engine.congested in inboxes:
                for inbox in inboxes:
                    commands.post(inbox.relieve)
            commands.hurry()
            if not waiter.wait(None if deadline_s == math.inf else deadline_s - time.monotonic()):
                return False
            # Another thread, or this one before it slept, may have taken what it was woken for.
            waiter = Waiter()
            for inbox in inboxes:
                inbox.sleepers.append(waiter)
    finally:
        for inbox in inboxes:
            if waiter in inbox.sleepers:
                try:
                    inbox.sleepers.remove(waiter)
                except (ValueError, IndexError):
                    pass  # it has just been woken
    return True
