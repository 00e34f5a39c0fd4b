"""What both shells know of streams: arguments, where to go on after a reconnection, where a range ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from embermq.client.core.message import Message
from embermq.client.errors import ClientError, ConsumerCancelled
from embermq.wire.table import Timestamp

Offset = int | str | datetime | timedelta

OFFSET, END_OFFSET, CONSUMER = "x-stream-offset", "x-stream-end-offset", "x-stream-consumer"
SUPER_STREAM, PARTITION_ORDER = "x-super-stream", "x-stream-partition-order"
CHUNK_S = 0.3  # between two messages of one chunk
LOOK_S = 2.0  # how long a stream may take to show a message that is there


def offset_argument(offset: Offset) -> object:
    """first, last, next, 1h as they are; a number; a time (without a zone: UTC); a duration: so long ago."""
    if isinstance(offset, timedelta):
        offset = datetime.now(UTC) - offset
    if isinstance(offset, datetime):
        if offset.tzinfo is None:
            offset = offset.replace(tzinfo=UTC)
        return Timestamp(int(offset.timestamp()))
    return offset


def declare_arguments(
    max_age: str | None, max_bytes: int | None, segment_bytes: int | None
) -> dict[str, object]:
    given = {
        "x-queue-type": "stream",
        "x-max-age": max_age,
        "x-max-length-bytes": max_bytes,
        "x-stream-max-segment-size-bytes": segment_bytes,
    }
    return {name: value for name, value in given.items() if value is not None}


def consume_arguments(
    offset: Offset,
    end_offset: int | None,
    name: str | None,
    single_active: bool,
    filter_values: Sequence[str],
    match_unfiltered: bool,
) -> dict[str, object]:
    arguments: dict[str, object] = {OFFSET: offset_argument(offset)}
    if end_offset is not None:
        arguments[END_OFFSET] = end_offset
    if name is not None:
        arguments[CONSUMER] = name
    if single_active:
        arguments["x-single-active-consumer"] = True
    if filter_values:
        arguments["x-stream-filter"] = list(filter_values)
        arguments["x-stream-match-unfiltered"] = match_unfiltered
    return arguments


def check_consume(is_embermq: bool, stream: str, *, no_ack: bool) -> None:
    """RabbitMQ closes the whole connection (540) for this."""
    if no_ack and not is_embermq:
        raise ValueError(
            f"this broker delivers streams with acks only: read '{stream}' without no_ack=True, and ack each "
            "message or batch"
        )


def check_partitions(is_embermq: bool, partitions: int) -> None:
    """RabbitMQ closes the whole connection (503) for an exchange type that it does not know."""
    if partitions and not is_embermq:
        raise ValueError(
            "this broker may not know the exchange type x-modulus-hash (a plugin of RabbitMQ's): give the "
            "routing_keys of the partitions instead of their number"
        )


def partition_names(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


class Progress:
    """How far a consumer has read its stream."""

    def __init__(self, arguments: dict[str, object], *, no_ack: bool, broker_ends_ranges: bool) -> None:
        self.arguments = arguments
        self.no_ack = no_ack
        end = arguments.get(END_OFFSET)
        self.end_offset = end if isinstance(end, int) else None
        self.finished = False
        self._watch_end = self.end_offset is not None and not broker_ends_ranges
        self._last: Message | None = None
        self._unsettled: deque[Message] = deque()

    def took(self, messages: list[Message]) -> list[Message]:
        """The user takes these; those behind the end of the range are left out."""
        if self._watch_end:
            messages = self._within_range(messages)
        if messages:
            self._last = messages[-1]
        if not self.no_ack:
            while self._unsettled and self._unsettled[0].settled:
                self._unsettled.popleft()
            self._unsettled.extend(messages)
        return messages

    def _within_range(self, messages: list[Message]) -> list[Message]:
        assert self.end_offset is not None
        within = []
        for message in messages:
            offset = message.stream_offset
            if offset is None or offset < self.end_offset:
                within.append(message)
            if offset is not None and offset >= self.end_offset - 1:
                self.finished = True
        return within

    def interrupted(self, waiting: list[Message]) -> None:
        """The connection broke: say in the arguments where to go on. The broker knows that of named ones."""
        if CONSUMER in self.arguments:
            return
        first = next((message for message in self._unsettled if not message.settled), None)
        self._unsettled.clear()
        if self.no_ack and waiting:
            self._last = waiting[-1]
        if first is not None and first.stream_offset is not None:
            self.arguments[OFFSET] = first.stream_offset
        elif self._last is not None and self._last.stream_offset is not None:
            self.arguments[OFFSET] = self._last.stream_offset + 1

    def is_end(self, error: ClientError) -> bool:
        """The broker cancels the consumer of a range when it has delivered all of it."""
        return self.finished or self.end_offset is not None and isinstance(error, ConsumerCancelled)
