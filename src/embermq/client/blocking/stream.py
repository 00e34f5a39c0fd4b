"""Streams and super streams for blocking code."""

from __future__ import annotations

from collections import deque
from typing import Self

from embermq.client.blocking.channel import Channel
from embermq.client.blocking.consumer import Consumer, deadline_after
from embermq.client.blocking.inbox import await_arrival
from embermq.client.calls import stream, super_stream
from embermq.client.calls.once import blocking
from embermq.client.calls.stream import StreamHandle
from embermq.client.calls.super_stream import SuperStreamHandle
from embermq.client.calls.with_block import WithBlock
from embermq.client.core.message import Message


class Stream(StreamHandle[Consumer]):
    """A stream by its name. Publish to it as to any queue."""

    channel: Channel

    declare = blocking(stream.declare)
    consume = blocking(stream.consume)
    first_offset = blocking(stream.first_offset)
    next_offset = blocking(stream.next_offset)
    offset_at = blocking(stream.offset_at)


class SuperStreamConsumer(WithBlock):
    """The consumers of all partitions as one iterator. Leaving its `with` block cancels them."""

    def __init__(self, parts: list[Consumer], timeout_s: float | None) -> None:
        self.parts = parts
        self.timeout_s = timeout_s
        self._order = deque(parts)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        while True:
            self._order.rotate(-1)  # each partition in turn
            for part in self._order:
                try:
                    for message in part.inbox.pops:
                        return message  # type: ignore[no-any-return]
                except IndexError:
                    pass
            self._wait()

    def _wait(self) -> None:
        """Sleep until a partition has something to say; the end after `timeout_s`, or with an error."""
        inboxes = [part.inbox for part in self.parts]
        if not await_arrival(inboxes, deadline_after(self.timeout_s)):
            raise StopIteration
        if not any(inbox.ready for inbox in inboxes):
            for part in self.parts:
                part.raise_error()
            raise StopIteration

    def cancel(self) -> None:
        for part in self.parts:
            part.cancel()

    def _leave(self, kind: type[BaseException] | None) -> None:
        self.cancel()


class SuperStream(SuperStreamHandle[Stream, SuperStreamConsumer]):
    """An exchange with several streams behind it, `NAME-0`, `NAME-1` ... Publish to the exchange `NAME`."""

    channel: Channel
    stream_type = Stream
    consumer_type = SuperStreamConsumer

    declare = blocking(super_stream.declare)
    partitions = blocking(super_stream.partitions)
    consume = blocking(super_stream.consume)
    delete = blocking(super_stream.delete)
