"""Deliveries for blocking code: an iterator, batches, or a callback in a thread of its own."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from embermq.client.core.channel import ChannelCore
from embermq.client.core.consumers import ConsumerInbox
from embermq.client.core.message import Message
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel

log = logging.getLogger("embermq.client")


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


class BlockingInbox(CancelledAtExit, ConsumerInbox):
    """Waits for what another thread, or this one meanwhile, reads."""

    def __init__(self, channel: Channel, core: ChannelCore, consume: BasicConsume) -> None:
        super().__init__(consume)
        self.channel = channel
        self._core = core
        self.arrived = threading.Condition(core.engine.lock)

    def wake(self) -> None:
        self.arrived.notify_all()

    def end(self, error: ClientError) -> None:
        with self._core.engine.lock:
            super().end(error)

    def await_arrival(self, timeout_s: float | None) -> None:
        """Until there is something to say, or for so long."""
        connection = self.channel.connection
        deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        if not self.something_to_say():
            # Flushes first: acks that wait in the buffer are what the broker waits for.
            connection.read_until(self.something_to_say, deadline_s)
        with self.arrived:
            if not self.something_to_say() and not self.is_finished() and timeout_s != 0:
                left_s = None if timeout_s is None else max(deadline_s - time.monotonic(), 0)
                connection.sleep(lambda: self.arrived.wait_for(self.something_to_say, left_s))

    def something_to_say(self) -> bool:
        return bool(self.messages) or self.error is not None or self._cancelled

    def raise_error(self) -> None:
        """Why no more comes, unless that is as it should be."""
        if self.error is not None and not self.ended_well and not self.channel.closed_by_user:
            raise self.error

    def cancel(self) -> None:
        """Tell the broker that no more is wanted; what waits here unread goes back to the queue."""
        with self.arrived:
            if self._cancelled:
                return
            self._cancelled = True
            self.arrived.notify_all()
        if self.error is None and self._core.error is None:
            self.channel.cancel(self.tag)


class Consumer(BlockingInbox):
    """Iterate over it, or `fetch` batches. Leaving its `with` block cancels it.

    After a reconnection it goes on by itself; what had not been settled comes again, marked as redelivered.
    """

    def __init__(
        self, channel: Channel, core: ChannelCore, consume: BasicConsume, timeout_s: float | None
    ) -> None:
        super().__init__(channel, core, consume)
        self.timeout_s = timeout_s
        self._taken: Iterator[Message] = iter(())
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    # -- taking messages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        """The next message; the end when the consumer was cancelled, or after `timeout_s` without any."""
        while True:
            for message in self._taken:
                if self.no_ack or not message.stale:
                    return message
            messages = self.wait(self.timeout_s)
            if not messages:
                raise StopIteration
            self._taken = iter(messages)

    def fetch(self, max_messages: int = 1000, timeout_s: float | None = None) -> list[Message]:
        """One to `max_messages` messages, as many as are there; none after `timeout_s` or at the end."""
        while True:
            batch: list[Message] = []
            for message in self._taken:
                if self.no_ack or not message.stale:
                    batch.append(message)
                    if len(batch) == max_messages:
                        return batch
            if batch:
                return batch
            messages = self.wait(timeout_s)
            if len(messages) <= max_messages:
                return messages
            self._taken = iter(messages)

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
            if not got:
                break
            batch += got
        return batch

    def ack(self, batch: list[Message]) -> None:
        """Settle a batch in one go: with one ack for all where that settles nothing else."""
        self._core.ack_batch(batch)

    def wait(self, timeout_s: float | None) -> list[Message]:
        """What has arrived; nothing after the time, or when the consumer has ended by our own will."""
        self.await_arrival(timeout_s)
        with self.arrived:
            if self.is_finished():
                return []
            if self.messages:
                return self._core.engine.taken(self)
            self.raise_error()
            return []

    # -- ending

    def cancel(self) -> None:
        super().cancel()
        with self._core.engine.lock:
            unread = [*self._taken, *self.messages]
            self.messages = []
            self._taken = iter(())
            if not self.no_ack:
                self.give_back(unread)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._thread is not None and self._thread is not threading.current_thread():
            self.join()

    # -- callbacks

    def start(self, callback: Callable[[Message], None]) -> None:
        """Have a thread call `callback` for each message, in order."""
        self._thread = threading.Thread(
            target=self._call, args=(callback,), name=f"embermq-consumer-{self.tag}", daemon=True
        )
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the callbacks; raises what ended them, if it was an error."""
        assert self._thread is not None, "this consumer has no callback: iterate over it"
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure

    def _call(self, callback: Callable[[Message], None]) -> None:
        try:
            for message in self:
                try:
                    callback(message)
                except Exception:
                    if not self.no_ack and not message.settled:
                        message.nack(requeue=True)
                    raise
        except Exception as failure:
            self._failure = failure
            log.exception("the callback of consumer '%s' failed, the consumer is cancelled", self.tag)
            try:
                self.cancel()
            except ClientError:
                pass  # the connection is gone: so is the consumer
