"""Deliveries for blocking code: an iterator, batches, or a callback in a thread of its own."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.blocking.inbox import BlockingInbox, await_arrival
from embermq.client.calls.consumer import ConsumerHandle, OnError, ack, callback_failed
from embermq.client.core.message import Message
from embermq.client.core.requests import cancel_request
from embermq.client.errors import ClientError

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel

log = logging.getLogger("embermq.client")


def deadline_after(timeout_s: float | None) -> float:
    return math.inf if timeout_s is None else time.monotonic() + timeout_s


class CancelledAtExit:
    """Leaving its `with` block cancels it."""

    def cancel(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()


class Consuming(ConsumerHandle, CancelledAtExit):
    """A consumer of either kind: of messages, or of columns."""

    inbox: BlockingInbox

    def __init__(self, channel: Channel, inbox: BlockingInbox) -> None:
        self.channel: Channel = channel
        self.inbox = inbox
        inbox.watch(self)

    def cancel(self) -> None:
        """Tell the broker that no more is wanted; what waits here unread goes back to the queue.

        Whatever interrupts it, it may be called again.
        """
        inbox, core = self.inbox, self.inbox.core
        inbox.cancelled = True
        for sleeper in list(inbox.sleepers):
            sleeper.set_result(None)
        if self.is_consuming():
            self.channel.connection.call(core, cancel_request(core, inbox))


class Consumer(Consuming):
    """Iterate over it, or `fetch` batches, in as many threads as you like: each message goes to one of them.

    After a reconnection it goes on by itself; what had not been settled comes again, marked as redelivered.
    """

    def __init__(self, channel: Channel, inbox: BlockingInbox, timeout_s: float | None) -> None:
        super().__init__(channel, inbox)
        self.timeout_s = timeout_s
        self._handed: dict[int, list[Message]] = {}  # by thread: a batch that `fetch` is about to return
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    # -- taking messages

    def __iter__(self) -> Iterator[Message]:
        """Messages, until the consumer is cancelled, or `timeout_s` has passed without any.

        Nothing is called between a message and its `yield`: a signal handler might raise there.
        """
        while True:
            if self._handed:
                self._give_up_handed()
            try:
                yield from self.inbox.pops
            except IndexError:
                pass
            if not self._await(deadline_after(self.timeout_s)):
                return

    def __next__(self) -> Message:
        """The next message, as the iteration has it."""
        for message in self:
            return message
        raise StopIteration

    def fetch(self, max_messages: int = 1000, timeout_s: float | None = None) -> list[Message]:
        """One to `max_messages` messages, as many as are there; none after `timeout_s` or at the end."""
        deadline_s = deadline_after(timeout_s)
        me = threading.get_ident()
        # What is taken stays here until it is returned: an interrupted call leaves it to the next one.
        handed = self._handed.setdefault(me, [])
        while True:
            try:
                handed.extend(islice(self.inbox.pops, max_messages - len(handed)))
            except IndexError:
                pass  # that was all
            if handed or not self._await(deadline_s):
                del self._handed[me]
                return handed

    def _give_up_handed(self) -> None:
        """A `fetch` of this thread was interrupted: its batch comes next."""
        handed = self._handed.get(threading.get_ident())
        if handed is not None:
            self.inbox.ready.extendleft(reversed(handed))
            del self._handed[threading.get_ident()]

    def _await(self, deadline_s: float) -> bool:
        """Whether it is worth looking again; raises why not, if that is an error."""
        inbox = self.inbox
        if not inbox.something_to_say() and not await_arrival([inbox], deadline_s):
            return False
        if inbox.ready:
            return True
        self.raise_error()
        return False

    def fetch_all(self, count: int, timeout_s: float) -> list[Message]:
        """`count` messages, or those that came within `timeout_s`; the prefetch must allow so many."""
        deadline_s = time.monotonic() + timeout_s
        batch: list[Message] = []
        while len(batch) < count and (left_s := deadline_s - time.monotonic()) > 0:
            try:
                got = self.fetch(count - len(batch), left_s)
            except ClientError:
                if batch:
                    break  # first what there was; the next call meets the error again
                raise
            except BaseException:
                self.inbox.ready.extendleft(reversed(batch))
                raise
            if not got:
                break
            batch += got
        return batch

    ack = ack

    # -- ending

    def cancel(self) -> None:
        super().cancel()
        if not self.no_ack:
            for handed in list(self._handed.values()):
                for message in handed:
                    message.nack(requeue=True)
        self._handed.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._thread is not None and self._thread is not threading.current_thread():
            self.join()

    # -- callbacks

    def start(self, callback: Callable[[Message], Any], on_error: OnError = "stop") -> None:
        """Have a thread call `callback` for each message, in order."""
        self._thread = threading.Thread(
            target=self._call, args=(callback, on_error), name=f"embermq-consumer-{self.tag}", daemon=True
        )
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the callbacks; raises what ended them, if it was an error."""
        assert self._thread is not None, "this consumer has no callback: iterate over it"
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure

    def _call(self, callback: Callable[[Message], Any], on_error: OnError) -> None:
        try:
            for message in self:
                try:
                    callback(message)
                except Exception:
                    if not callback_failed(message, on_error, self.no_ack):
                        raise
        except Exception as failure:
            if failure is self.inbox.error and self.channel.connection.closed_by_user:
                return
            self._failure = failure
            log.exception("the callback of consumer '%s' failed, the consumer is cancelled", self.tag)
            try:
                self.cancel()
            except ClientError:
                pass  # the connection is gone: so is the consumer
