"""Length limits of a queue, and what happens beyond: x-max-length, x-max-length-bytes, x-overflow.

Only ready messages count, and of these only the bodies. A limit is for what piles up: what consumers will
take at the end of the turn does not count, so they come first, and nothing is delivered inside a publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.incremental_work import Share
from embermq.broker.queue.dispatch import room_for

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.classic import ClassicQueue
    from embermq.broker.queue.features import QueueRules

ACCEPTED = 0
REFUSED = 1  # what Queue.append answers when the queue is full and says so
DROP_HEAD = "drop-head"
REJECT_PUBLISH_DLX = "reject-publish-dlx"
UNLIMITED = 2**62
DROPPED_AT_ONCE = 32  # messages; with more, the clock is read


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

    def refuses(self, queue: ClassicQueue, message: Message) -> bool:
        """Is there no room for this message, in a queue that says so?"""
        count, size = queue.ready_count + 1, queue.ready_bytes + message.size - message.header_size
        if not self.exceeded(count, size):
            return False
        left = count - room_for(queue, message) if queue.consumers else count
        return left > 0 and self.exceeded(left, size * left // count)

    def make_room(self, rules: QueueRules) -> None:
        """See to it that the queue is within its limits again, once its consumers have had their turn."""
        queue = rules.queue
        if self.drops_head and self.exceeded(queue.ready_count, queue.ready_bytes):
            self.behind = False
            if queue.consumers:
                queue.mark()  # and be back in `QueueRules.drained`
            else:
                self.drop_head(rules)

    def drop_head(self, rules: QueueRules) -> None:
        """As much as one turn has time for: a policy may have made a large backlog too long."""
        queue = rules.queue
        share: Share | None = None
        dropped = 0
        self.behind = False
        while self.exceeded(queue.ready_count, queue.ready_bytes):
            if dropped == DROPPED_AT_ONCE and rules.turn.timers is not None:
                share = Share()
            elif share is not None and share.is_over():
                self.behind = True
                rules.schedule_check(rules.turn.now_ms + 1)
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
