"""Consumers: how they begin and end, their state as its user sees it, and what a failed callback leads to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from embermq.client.calls.channel import AnyChannel, ChannelHandle, qos
from embermq.client.calls.once import given
from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.requests import Arguments, cancel_request, consume_method, consume_request
from embermq.client.core.stream_progress import END_OFFSET, OFFSET, Progress
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

log = logging.getLogger("embermq.client")

OnError = Literal["stop", "requeue", "reject"]
C = TypeVar("C")  # the shell's consumer
F = TypeVar("F")  # its callback
ON_ERROR: tuple[OnError, ...] = ("stop", "requeue", "reject")


class ConsumerHandle:
    """What a user holds of a consumer; the connection holds its inbox."""

    channel: Any
    inbox: Inbox
    failure: BaseException | None = None  # what ended the callbacks
    on_end: Callable[[], None] | None = None  # called when they have ended
    others: list[None]  # one for each thread or task with callbacks but the last

    def rouse(self) -> None:
        """Have those that wait for messages look again."""
        raise NotImplementedError

    def put_back(self, messages: list[Message]) -> None:
        """They were taken and are not wanted now: they come next."""
        raise NotImplementedError

    @property
    def tag(self) -> str:
        return self.inbox.tag

    @property
    def consume(self) -> BasicConsume:
        """The method that made it."""
        return self.inbox.consume

    @property
    def no_ack(self) -> bool:
        return self.inbox.no_ack

    @property
    def error(self) -> ClientError | None:
        """Why no more will come."""
        return self.inbox.error

    def raise_error(self) -> None:
        """Why no more comes, unless that is as it should be."""
        error = self.inbox.error
        if error is None or self.inbox.ended_well or self.inbox.is_finished():
            return
        if not self.channel.closed_by_user:
            raise error

    def is_consuming(self) -> bool:
        """The broker knows it and has not ended it."""
        core = self.channel.core
        known = self.inbox.error is None and core.error is None
        return known and core.consumers.get(self.tag) is self.inbox

    def cancel_soon(self) -> None:
        """As `cancel`, without waiting for the answer."""
        self.inbox.cancelled = True
        core = self.channel.core
        self.channel.connection.tell(core, cancel_request(core, self.inbox))

    def __repr__(self) -> str:
        state = "cancelled" if self.inbox.is_finished() else "ended" if self.inbox.error else "consuming"
        return f"<{type(self).__name__} '{self.tag}' of queue '{self.consume.queue}', {state}>"


def ack(consumer: ConsumerHandle, batch: list[Message]) -> None:
    """Settle a batch in one go: with one ack for all where that settles nothing else."""
    consumer.channel.core.ack_batch(batch)


# -- beginning


async def consume(
    channel: ChannelHandle[C, F],
    queue: str = "",
    callback: F | None = None,
    *,
    concurrency: int = 1,
    prefetch: int | None = None,
    no_ack: bool = False,
    exclusive: bool = False,
    no_local: bool = False,
    consumer_tag: str = "",
    selector: str | None = None,
    arguments: Arguments = None,
    timeout_s: float | None = None,
    on_error: OnError = "stop",
) -> C:
    """Begin to consume. Iterate over the result, or give a callback: `concurrency` threads or tasks call it.

    With `timeout_s` the iteration ends when nothing came for so long. `prefetch` holds for this consumer
    and for those after it on the channel. No name means the queue declared last. `selector` is a condition
    on the messages (EmberMQ only). What a callback raises ends the consumer; with `on_error` "requeue" or
    "reject" it is logged, and the consumer goes on.
    """
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency!r}")
    if prefetch is not None:
        await qos(channel, prefetch)
    method = consume_method(queue, consumer_tag, no_local, no_ack, exclusive, arguments, selector)
    consumer: Any = await begin(channel, method, timeout_s)
    if callback is not None:
        consumer.start(callback, concurrency, on_error)
    return consumer  # type: ignore[no-any-return]


async def begin(
    channel: ChannelHandle[C, Any],
    consume: BasicConsume,
    timeout_s: float | None,
    progress: Progress | None = None,
) -> C:
    """Say basic.consume; `progress` is that of a stream."""
    check_acks(channel.connection.is_embermq, consume)
    consumer: Any = channel.new_consumer(consume, timeout_s, progress)
    await given(channel.connection.call(channel.core, consume_request(channel.core, consumer.inbox)))
    return consumer  # type: ignore[no-any-return]


def check_acks(is_embermq: bool, consume: BasicConsume) -> None:
    """A stream that is consumed without acks makes brokers close the whole connection (540)."""
    if not consume.no_ack or OFFSET not in consume.arguments:
        return
    if not is_embermq:
        raise ValueError(
            f"this broker delivers streams with acks only: read '{consume.queue}' without no_ack=True, and "
            "ack each message or batch"
        )
    if END_OFFSET not in consume.arguments:
        raise ValueError(
            f"a stream is delivered without acks only up to an end: read '{consume.queue}' with end_offset= "
            f"({END_OFFSET}), or without no_ack=True"
        )


def check_no_stream(channel: AnyChannel, consume: BasicConsume) -> None:
    """The same where nothing says whether the queue is a stream: RabbitMQ has no way to ask for that."""
    if channel.connection.is_embermq or not consume.no_ack:
        return
    last = channel.core.last_queue
    name = consume.queue or ("" if last is None else last.name)
    declared = channel.core.engine.topology.queues.get(name)
    if declared is None or declared.declare.arguments.get("x-queue-type") == "stream":
        raise ValueError(
            f"'{name}' may be a stream, for which this broker would close the connection: read it without "
            "no_ack=True, and ack each batch; or, if it is none, declare it on this connection first"
        )


# -- ending


async def cancel(consumer: ConsumerHandle) -> None:
    """Tell the broker that no more is wanted; what waits here unread goes back to the queue.

    Whatever interrupts it, it may be called again.
    """
    consumer.inbox.cancelled = True
    consumer.rouse()
    if consumer.is_consuming():
        channel = consumer.channel
        try:
            await given(channel.connection.call(channel.core, cancel_request(channel.core, consumer.inbox)))
        except ClientError:
            if not channel.closed_by_user:  # else the channel took the consumer with it
                raise


async def fetch_all(consumer: ConsumerHandle, count: int, timeout_s: float) -> list[Message]:
    """`count` messages, or those that came within `timeout_s`; the prefetch must allow so many."""
    fetch: Any = consumer.fetch  # type: ignore[attr-defined]
    deadline_s = time.monotonic() + timeout_s
    batch: list[Message] = []
    while len(batch) < count and (left_s := deadline_s - time.monotonic()) > 0:
        try:
            got = await given(fetch(count - len(batch), left_s))
        except ClientError:
            if batch:
                break  # first what there was; the next call meets the error again
            raise
        except BaseException:
            consumer.put_back(batch)
            raise
        if not got:
            break
        batch += got
    return batch


# -- callbacks


async def callbacks_failed(consumer: ConsumerHandle, failure: BaseException) -> None:
    """No more is delivered to them."""
    if failure is consumer.error and consumer.channel.connection.closed_by_user:
        return
    consumer.failure = failure
    log.exception("the callback of consumer '%s' failed, the consumer is cancelled", consumer.tag)
    try:
        await cancel(consumer)
    except ClientError:
        pass  # the connection is gone: so is the consumer


def callbacks_ended(consumer: ConsumerHandle) -> None:
    """One of the threads or tasks has no more to do; was it the last one?"""
    try:
        consumer.others.pop()
    except IndexError:
        if consumer.on_end is not None:
            consumer.on_end()


def callback_failed(message: Message, on_error: OnError, no_ack: bool) -> bool:
    """The message is given back; whether the consumer goes on."""
    if not no_ack and not message.settled:
        message.nack(requeue=on_error != "reject")
    if on_error == "stop":
        return False
    log.exception("a callback failed, its message is given back (on_error=%r)", on_error)
    return True
