"""Retention of a stream: the oldest segments are deleted, as its arguments and policies say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.stream.arguments import retention_from
from embermq.store.log.retention import retain

if TYPE_CHECKING:
    from embermq.broker.stream.stream import Stream


class StreamRetention:
    __slots__ = ("limits", "limits_of", "looks_at_ms", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.limits = retention_from(stream.effective)
        self.limits_of = stream.effective  # what `limits` was made of
        self.looks_at_ms = 0  # when the oldest segment will be too old

    def retain(self) -> None:
        stream = self.stream
        if stream.deleted:
            return
        log = stream.log
        if self.limits_of is not stream.effective:
            self.limits_of = stream.effective
            self.limits = retention_from(stream.effective)
            log.segment_bytes = self.limits.segment_bytes
        limits = self.limits
        # Should the newest segment be lost with the power, the one before must be there to count on from.
        if limits.limited and len(log.segments) > 1 and stream.safe_end > log.segments[-1].first:
            stream.filters.forget(retain(log, stream.turn.now_ms, limits.bytes_max, limits.age_ms_max))
            if limits.age_ms_max is not None:
                self.schedule_check(log.segments[0].time_max + limits.age_ms_max + 1)
        stream.ready_count = log.count
        stream.ready_bytes = log.bytes_on_disk

    def schedule_check(self, due_ms: int) -> None:
        """Look at the age of the oldest segment at that time."""
        timers = self.stream.turn.timers
        if len(self.stream.log.segments) > 1 and timers is not None:
            if self.looks_at_ms == 0 or due_ms < self.looks_at_ms:
                self.looks_at_ms = due_ms
                timers.ask(due_ms, self)

    def on_due(self, now_ms: int) -> None:
        if now_ms >= self.looks_at_ms:
            self.looks_at_ms = 0
        self.retain()
