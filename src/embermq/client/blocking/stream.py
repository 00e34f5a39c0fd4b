"""Streams for blocking code: declare them, read them from any place, look where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from embermq.client.blocking.channel import Channel
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.inbox import BlockingStreamInbox
from embermq.client.core.requests import consume_method, consume_request
from embermq.client.core.streams import (
    CHUNK_S,
    LOOK_S,
    Offset,
    Progress,
    check_consume,
    consume_arguments,
    declare_arguments,
)
from embermq.wire.methods import BasicConsume


class StreamConsumer(Consumer):
    """Goes on after a reconnection with the first message that was not settled."""

    inbox: BlockingStreamInbox

    def __init__(self, channel: Channel, consume: BasicConsume, timeout_s: float | None) -> None:
        super().__init__(channel, BlockingStreamInbox(channel.core, consume), timeout_s)
        self.inbox.progress = Progress(
            consume.arguments,
            no_ack=consume.no_ack,
            broker_ends_ranges=channel.connection.is_embermq,
        )


class Stream:
    """A stream by its name. Publish to it as to any queue."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.channel = channel
        self.name = name

    def declare(
        self, *, max_age: str | None = None, max_bytes: int | None = None, segment_bytes: int | None = None
    ) -> Self:
        """Make it: durable, keeping messages so long (`7D`, `1h`) or so many bytes."""
        arguments = declare_arguments(max_age, max_bytes, segment_bytes)
        self.channel.queue_declare(self.name, durable=True, arguments=arguments)
        return self

    def consume(
        self,
        offset: Offset = "next",
        *,
        end_offset: int | None = None,
        name: str | None = None,
        single_active: bool = False,
        filter_values: Sequence[str] = (),
        match_unfiltered: bool = False,
        no_ack: bool = False,
        prefetch: int | None = None,
        timeout_s: float | None = None,
    ) -> StreamConsumer:
        """Read from `offset`: first, last, next, a number, a time, or how long ago.

        With `end_offset` (exclusive) the iteration ends there. `name` has the broker remember how far the
        consumers of this name have acked (EmberMQ); `offset` then only says where the first of them begins.
        """
        check_consume(self.channel.connection.is_embermq, self.name, no_ack=no_ack)
        if prefetch is not None:
            self.channel.qos(prefetch)
        arguments = consume_arguments(
            offset, end_offset, name, single_active, filter_values, match_unfiltered
        )
        core = self.channel.core
        method = consume_method(self.name, "", False, no_ack, False, arguments)
        consumer = StreamConsumer(self.channel, method, timeout_s)
        self.channel.connection.call(core, consume_request(core, consumer.inbox))
        return consumer

    # -- looking without consuming

    def first_offset(self) -> int | None:
        """The offset of the oldest message that is kept; None: there is none."""
        return self.offset_at("first")

    def next_offset(self) -> int:
        """The offset that the next message will have."""
        if self._is_empty():
            return 0
        following = 0
        with self.channel.connection.channel(prefetch=1000) as channel:
            with Stream(channel, self.name).consume("last") as consumer:
                batch = consumer.fetch(1000, LOOK_S)
                while batch:
                    following = (batch[-1].stream_offset or 0) + 1
                    consumer.ack(batch)
                    # RabbitMQ begins with the last chunk: look how far it goes.
                    batch = [] if channel.connection.is_embermq else consumer.fetch(1000, CHUNK_S)
        return following

    def offset_at(self, offset: Offset) -> int | None:
        """The offset of the first message at a place or time; None: there is none yet."""
        if self._is_empty():
            return None
        with self.channel.connection.channel(prefetch=1) as channel:
            with Stream(channel, self.name).consume(offset) as consumer:
                found = consumer.fetch(1, LOOK_S)
                return found[0].stream_offset if found else None

    def _is_empty(self) -> bool:
        """For sure. RabbitMQ's message count of a stream lags behind."""
        info = self.channel.queue_declare(self.name, passive=True)
        return info.message_count == 0 and self.channel.connection.is_embermq
