"""How much a queue may hold, and what happens beyond: x-max-length, x-max-length-bytes, x-overflow.

Only ready messages count, and of these only the bodies. A consumer that can take messages at once is asked
before anything is dropped or refused: a limit is for what piles up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.piecework import Share

if TYPE_CHECKING:
    from embermq.broker.queue import Queue
    from embermq.broker.rules import QueueRules

ACCEPTED = 0
REFUSED = 1  # what Queue.append answers when the queue is full and says so
DROP_HEAD = "drop-head"
REJECT_PUBLISH_DLX = "reject-publish-dlx"
UNLIMITED = 2**62
DROPPED_AT_ONCE = 32  # messages; with more, a look at the clock


class Limits:
    def __init__(self, count_max: int | None, bytes_max: int | None, overflow: str) -> None:
        self.count_max = UNLIMITED if count_max is None else count_max
        self.bytes_max = UNLIMITED if bytes_max is None else bytes_max
        self.counts_bytes = bytes_max is not None
        self.drops_head = overflow == DROP_HEAD
        self.behind = False  # there is more to drop, in turns to come
        self.dead_letters_refused = overflow == REJECT_PUBLISH_DLX

    def exceeded(self, count: int, size: int) -> bool:
        """Are so many messages, or so many bytes, too much?"""
        return count > self.count_max or size > self.bytes_max

    def refuses(self, queue: Queue, body_bytes: int) -> bool:
        """Is there no room for a message of this size, in a queue that says so?"""
        if self.drops_head or not self.exceeded(queue.ready_count + 1, queue.ready_bytes + body_bytes):
            return False
        if queue.consumers:
            queue.drain()
        return self.exceeded(queue.ready_count + 1, queue.ready_bytes + body_bytes)

    def make_room(self, rules: QueueRules) -> None:
        """Drop from the head until the queue is within its limits again."""
        if self.drops_head and self.exceeded(rules.queue.ready_count, rules.queue.ready_bytes):
            self.drop_head(rules)

    def drop_head(self, rules: QueueRules) -> None:
        """As much as one turn has time for: a policy may have made a large backlog too long."""
        queue = rules.queue
        if queue.consumers:
            queue.drain()
        share: Share | None = None
        dropped = 0
        self.behind = False
        while self.exceeded(queue.ready_count, queue.ready_bytes):
            if dropped == DROPPED_AT_ONCE and rules.turn.timetable is not None:
                share = Share()
            elif share is not None and share.is_over():
                self.behind = True
                rules.look_at(rules.turn.now_ms + 1)
                return
            entry = queue.take_head()
            if entry is None:
                return
            rules.dispose([entry], "maxlen")
            dropped += 1


def limits_from(arguments: dict[str, object]) -> Limits | None:
    count_max, bytes_max = arguments.get("x-max-length"), arguments.get("x-max-length-bytes")
    if count_max is None and bytes_max is None:
        return None
    assert isinstance(count_max, int | None) and isinstance(bytes_max, int | None)
    return Limits(count_max, bytes_max, str(arguments.get("x-overflow", DROP_HEAD)))
