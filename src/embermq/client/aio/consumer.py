"""Deliveries for coroutines: an async iterator, batches, or a callback."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.calls.callback import OnError, callback_failed
from embermq.client.core.channel import ChannelCore
from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.requests import cancel_request
from embermq.client.core.stream_progress import Progress
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

if TYPE_CHECKING:
    from embermq.client.aio.channel import AsyncChannel

log = logging.getLogger("embermq.client")

MessageCallback = Callable[[Message], Coroutine[Any, Any, None] | None]


class AsyncConsumer(Inbox):
    """Iterate over it with `async for`, or `fetch` batches. Leaving its `async with` block cancels it.

    After a reconnection it goes on by itself; what had not been settled comes again, marked as redelivered.
    """

    def __init__(
        self,
        channel: AsyncChannel,
        core: ChannelCore,
        consume: BasicConsume,
        timeout_s: float | None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(consume, progress)
        self.channel = channel
        self.timeout_s = timeout_s
        self._core = core
        self._taken: deque[Message] = deque()
        self.sleepers: set[asyncio.Future[None]] = set()
        self._workers: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None

    def wake(self) -> None:
        for sleeper in self.sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    # -- taking messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message; the end when the consumer was cancelled, or after `timeout_s` without any."""
        while True:
            while self._taken:
                message = self._taken.popleft()
                if self.no_ack or not message.stale:
                    return message
            if self.messages:
                self._taken.extend(self.taken())
            elif not await self.arrival(self.timeout_s):
                raise StopAsyncIteration

    async def fetch(self, max_messages: int = 1000, timeout_s: float | None = None) -> list[Message]:
        """One to `max_messages` messages, as many as are there; none after `timeout_s` or at the end."""
        while True:
            batch: list[Message] = []
            while self._taken and len(batch) < max_messages:
                message = self._taken.popleft()
                if self.no_ack or not message.stale:
                    batch.append(message)
            if batch:
                return batch
            if self.messages:
                self._taken.extend(self.taken())
            elif not await self.arrival(timeout_s):
                return []

    async def fetch_all(self, count: int, timeout_s: float) -> list[Message]:
        """`count` messages, or those that came within `timeout_s`; the prefetch must allow so many."""
        loop = self.channel.connection.loop
        deadline_s = loop.time() + timeout_s
        batch: list[Message] = []
        while len(batch) < count and (left_s := deadline_s - loop.time()) > 0:
            try:
                got = await self.fetch(count - len(batch), left_s)
            except ClientError:
                if batch:
                    break  # first what there was; the next call meets the error again
                raise
            except asyncio.CancelledError:
                self._taken.extendleft(reversed(batch))
                raise
            if not got:
                break
            batch += got
        return batch

    def ack(self, batch: list[Message]) -> None:
        """Settle a batch in one go: with one ack for all where that settles nothing else."""
        self._core.ack_batch(batch)

    async def arrival(self, timeout_s: float | None, group: Sequence[AsyncConsumer] = ()) -> bool:
        """Wait until it is worth looking again; false after the time, or at an end that is no error.

        A `group` shares its sleepers and ends together.
        """
        if any(part.at_end() for part in group or (self,)):
            return False
        self.channel.connection.flush()  # acks that wait in the buffer are what the broker waits for
        sleeper = self.channel.connection.loop.create_future()
        self.sleepers.add(sleeper)
        try:
            if timeout_s is None:
                await sleeper
            else:
                async with asyncio.timeout(timeout_s):
                    await sleeper
        except TimeoutError:
            return bool(self.messages)
        finally:
            self.sleepers.discard(sleeper)
        return True

    def at_end(self) -> bool:
        """Nothing more is wanted, or will come; raises the error if that is one."""
        if self.error is None or self.is_finished() or self.ended_well or self.channel.closed_by_user:
            return self.error is not None or self.is_finished()
        raise self.error

    def taken(self) -> list[Message]:
        """All that has arrived."""
        return self._core.engine.taken(self)

    # -- ending

    async def cancel(self) -> None:
        """Tell the broker that no more is wanted; what waits here unread goes back to the queue.

        Whatever interrupts it, it may be called again.
        """
        self.cancelled = True
        self.wake()
        if self.error is None and self._core.error is None and self._core.consumers.get(self.tag) is self:
            await self.channel.connection.call(self._core, cancel_request(self._core, self))

    def forsake(self) -> None:
        """As `cancel`, without waiting for the answer."""
        self.cancelled = True
        self.channel.connection.tell(self._core, cancel_request(self._core, self))

    def waiting(self) -> list[Message]:
        return [*self._taken, *self.messages]

    def give_back(self) -> None:
        super().give_back()
        self._taken.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()
        if self._workers and asyncio.current_task() not in self._workers:
            await self.join()

    # -- callbacks

    def start(self, callback: MessageCallback, concurrency: int, on_error: OnError = "stop") -> None:
        """Have `concurrency` tasks call `callback`; with one, messages are handled in order."""
        for _ in range(concurrency):
            task = self.channel.connection.background(
                self._call(callback, on_error), f"embermq-consumer-{self.tag}"
            )
            self._workers.append(task)

    async def join(self) -> None:
        """Wait for the end of the callbacks; raises what ended them, if it was an error."""
        assert self._workers, "this consumer has no callback: iterate over it"
        await asyncio.wait(self._workers)
        if self._failure is not None:
            raise self._failure

    async def _call(self, callback: MessageCallback, on_error: OnError) -> None:
        try:
            async for message in self:
                try:
                    result = callback(message)
                    if result is not None:
                        await result
                except Exception:
                    if not callback_failed(message, on_error, self.no_ack):
                        raise
        except Exception as failure:
            if failure is self.error and self.channel.connection.closed_by_user:
                return
            self._failure = failure
            log.exception("the callback of consumer '%s' failed, the consumer is cancelled", self.tag)
            try:
                await self.cancel()
            except ClientError:
                pass  # the connection is gone: so is the consumer
