"""Deliveries for blocking code: an iterator, batches, or a callback in a thread of its own."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from embermq.client.blocking.inbox import BlockingInbox, await_arrival
from embermq.client.calls import consumer as calls
from embermq.client.calls.consumer import ConsumerHandle, OnError, callback_failed
from embermq.client.calls.once import blocking
from embermq.client.calls.with_block import WithBlock
from embermq.client.core.message import Message

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel


def deadline_after(timeout_s: float | None) -> float:
    return math.inf if timeout_s is None else time.monotonic() + timeout_s


class Consuming(ConsumerHandle, WithBlock):
    """A consumer of either kind: of messages, or of columns. Leaving its `with` block cancels it."""

    inbox: BlockingInbox

    def __init__(self, channel: Channel, inbox: BlockingInbox) -> None:
        self.channel: Channel = channel
        self.inbox = inbox
        inbox.watch(self)

    def rouse(self) -> None:
        for sleeper in list(self.inbox.sleepers):
            sleeper.set_result(None)

    cancel = blocking(calls.cancel)

    def _leave(self, kind: type[BaseException] | None) -> None:
        self.cancel()


class Consumer(Consuming):
    """Iterate over it, or `fetch` batches, in as many threads as you like: each message goes to one of them.

    After a reconnection it goes on by itself; what had not been settled comes again, marked as redelivered.
    """

    def __init__(self, channel: Channel, inbox: BlockingInbox, timeout_s: float | None) -> None:
        super().__init__(channel, inbox)
        self.timeout_s = timeout_s
        self._handed: dict[int, list[Message]] = {}  # by thread: a batch that `fetch` is about to return
        self._threads: list[threading.Thread] = []

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
            self.put_back(handed)
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

    def put_back(self, messages: list[Message]) -> None:
        self.inbox.ready.extendleft(reversed(messages))

    fetch_all = blocking(calls.fetch_all)
    ack = calls.ack

    # -- ending

    def cancel(self) -> None:
        super().cancel()
        if not self.no_ack:
            for handed in list(self._handed.values()):
                for message in handed:
                    message.nack(requeue=True)
        self._handed.clear()

    def _leave(self, kind: type[BaseException] | None) -> None:
        self.cancel()
        if self._threads and threading.current_thread() not in self._threads:
            self.join()

    # -- callbacks

    def start(
        self, callback: Callable[[Message], Any], concurrency: int = 1, on_error: OnError = "stop"
    ) -> None:
        """Have `concurrency` threads call `callback`; with one, messages are handled in order."""
        self.others = [None] * (concurrency - 1)
        for _ in range(concurrency):
            thread = threading.Thread(
                target=self._call, args=(callback, on_error), name=f"embermq-consumer-{self.tag}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the callbacks; raises what ended them, if it was an error."""
        assert self._threads, "this consumer has no callback: iterate over it"
        deadline_s = deadline_after(timeout_s)
        for thread in self._threads:
            thread.join(None if timeout_s is None else max(deadline_s - time.monotonic(), 0))
        if self.failure is not None:
            raise self.failure

    def _call(self, callback: Callable[[Message], Any], on_error: OnError) -> None:
        try:
            for message in self:
                try:
                    callback(message)
                except BaseException as failure:
                    going_on = callback_failed(message, on_error, self.no_ack)
                    if not going_on or not isinstance(failure, Exception):
                        raise
        except BaseException as failure:  # sys.exit() ends this thread, and must not leave its consumer
            self._callbacks_failed(failure)
        finally:
            calls.callbacks_ended(self)

    _callbacks_failed = blocking(calls.callbacks_failed)
