"""Deliveries for coroutines: an async iterator, batches, or a callback."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from embermq.client.calls import consumer as calls
from embermq.client.calls.consumer import ConsumerHandle, OnError, callback_failed
from embermq.client.calls.with_block import AsyncWithBlock
from embermq.client.core.channel import ChannelCore
from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.requests import cancel_request
from embermq.client.core.stream_progress import Progress
from embermq.wire.methods import BasicConsume

if TYPE_CHECKING:
    from embermq.client.aio.channel import AsyncChannel

MessageCallback = Callable[[Message], Coroutine[Any, Any, None] | None]


class AsyncInbox(Inbox):
    def __init__(self, core: ChannelCore, consume: BasicConsume, progress: Progress | None = None) -> None:
        super().__init__(consume, progress)
        self.core = core
        self.taken: deque[Message] = deque()  # out of what arrived, not yet given to a task
        self.sleepers: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        for sleeper in self.sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def waiting(self) -> list[Message]:
        return [*self.taken, *self.messages]

    def give_back(self) -> None:
        super().give_back()
        self.taken.clear()

    def next_message(self) -> Message | None:
        """The next one that counts still, if there is one."""
        while True:
            if not self.taken:
                if not self.messages:
                    return None
                self.taken.extend(self.core.engine.taken(self))
            while self.taken:
                message = self.taken.popleft()
                if self.no_ack or not message.stale:
                    return message

    def watch(self, handle: object, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the consumer when its user has forgotten the handle; any thread may collect that."""

        def forgotten(reference: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, and the connection with it
                loop.call_soon_threadsafe(self.forgotten)

        self._watch = weakref.ref(handle, forgotten)

    def forgotten(self) -> None:
        """No task can take the messages any more: a loop was left by `break`, say."""
        core = self.core
        if core.consumers.get(self.tag) is self:
            self.cancelled = True
            core.request(cancel_request(core, self))
            core.buffer.wake()


class AsyncConsumer(ConsumerHandle, AsyncWithBlock):
    """Iterate over it with `async for`, or `fetch` batches. Leaving its `async with` block cancels it.

    After a reconnection it goes on by itself; what had not been settled comes again, marked as redelivered.
    """

    inbox: AsyncInbox

    def __init__(self, channel: AsyncChannel, inbox: AsyncInbox, timeout_s: float | None) -> None:
        self.channel: AsyncChannel = channel
        self.inbox = inbox
        self.timeout_s = timeout_s
        self._workers: list[asyncio.Task[None]] = []
        inbox.watch(self, channel.connection.loop)

    # -- taking messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message; the end when the consumer was cancelled, or after `timeout_s` without any."""
        while True:
            message = self.inbox.next_message()
            if message is not None:
                return message
            if not await self.arrival(self.timeout_s):
                raise StopAsyncIteration

    async def fetch(self, max_messages: int = 1000, timeout_s: float | None = None) -> list[Message]:
        """One to `max_messages` messages, as many as are there; none after `timeout_s` or at the end."""
        while True:
            batch: list[Message] = []
            while len(batch) < max_messages and (message := self.inbox.next_message()) is not None:
                batch.append(message)
            if batch or not await self.arrival(timeout_s):
                return batch

    def put_back(self, messages: list[Message]) -> None:
        self.inbox.taken.extendleft(reversed(messages))

    fetch_all = calls.fetch_all

    async def arrival(self, timeout_s: float | None, group: Sequence[AsyncConsumer] = ()) -> bool:
        """Wait until it is worth looking again; false after the time, or at an end that is no error.

        A `group` shares its sleepers and ends together.
        """
        for part in group or (self,):
            part.raise_error()
            if part.inbox.error is not None or part.inbox.is_finished():
                return False
        self.channel.connection.flush()  # acks that wait in the buffer are what the broker waits for
        sleeper = self.channel.connection.loop.create_future()
        self.inbox.sleepers.add(sleeper)
        try:
            if timeout_s is None:
                await sleeper
            else:
                async with asyncio.timeout(timeout_s):
                    await sleeper
        except TimeoutError:
            return bool(self.inbox.messages)
        finally:
            self.inbox.sleepers.discard(sleeper)
        return True

    ack = calls.ack

    # -- ending

    def rouse(self) -> None:
        self.inbox.wake()

    cancel = calls.cancel

    async def _leave(self, kind: type[BaseException] | None) -> None:
        await self.cancel()
        if self._workers and asyncio.current_task() not in self._workers:
            await self.join()

    # -- callbacks

    def start(self, callback: MessageCallback, concurrency: int = 1, on_error: OnError = "stop") -> None:
        """Have `concurrency` tasks call `callback`; with one, messages are handled in order."""
        self.others = [None] * (concurrency - 1)
        for _ in range(concurrency):
            task = self.channel.connection.background(
                self._call(callback, on_error), f"embermq-consumer-{self.tag}"
            )
            self._workers.append(task)

    async def join(self) -> None:
        """Wait for the end of the callbacks; raises what ended them, if it was an error."""
        assert self._workers, "this consumer has no callback: iterate over it"
        await asyncio.wait(self._workers)
        if self.failure is not None:
            raise self.failure

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
            await calls.callbacks_failed(self, failure)
        finally:
            calls.callbacks_ended(self)
