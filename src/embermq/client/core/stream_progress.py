"""Progress of a consumer in its stream: where to go on after a reconnection, where a range ends."""

from __future__ import annotations

from collections import deque

from embermq.client.core.message import Message
from embermq.client.errors import ClientError, ConsumerCancelled

OFFSET, END_OFFSET, CONSUMER = "x-stream-offset", "x-stream-end-offset", "x-stream-consumer"


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
