"""Expiry of messages and of unused queues: x-message-ttl, expiration, x-expires.

A message expires at the lower of the queue's time to live and its own, counted from when it came to the
queue; a restart does not change that, the record on disk has the time. Expired messages leave from the head
of their level: by the timers, or when they would be delivered. One that stands behind a younger head
waits for it.

A queue with x-expires goes when for so long it had no consumer, no basic.get and no declaration. That is not
measured by the clock, which may be set: a queue that goes takes its messages along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.incremental_work import Pieces, Share
from embermq.broker.message.message import NO_TTL

if TYPE_CHECKING:
    from embermq.broker.queue.classic import ClassicQueue
    from embermq.broker.turn import Turn

GONE_AT_ONCE = 32  # messages; with more, the clock is read


class Expiry:
    def __init__(self, queue: ClassicQueue, turn: Turn) -> None:
        self.queue = queue
        self.turn = turn
        self.ttl_ms = NO_TTL
        self.unused_ms_max: int | None = None
        self.used_at_ms = turn.uptime_ms()
        self.asked_ms = 0  # the timers will call then; 0: they will not

    def apply_effective(self) -> None:
        ttl_ms, unused_ms = (self.queue.effective.get(name) for name in ("x-message-ttl", "x-expires"))
        self.ttl_ms = ttl_ms if isinstance(ttl_ms, int) else NO_TTL
        unused_ms_max = unused_ms if isinstance(unused_ms, int) else None
        if unused_ms_max != self.unused_ms_max:
            self.unused_ms_max = unused_ms_max
            self.used_at_ms = self.turn.uptime_ms()  # the new rule counts from now
        for level in self.queue.levels:
            level.set_ttl(self.ttl_ms)

    def used(self) -> None:
        """The queue is used; what has expired is dropped first."""
        self.used_at_ms = self.turn.uptime_ms()
        self.expire_heads(self.turn.now_ms)
        self.schedule_next_check()

    def schedule_check(self, due_ms: int) -> int:
        """Have the timers call at that time at the latest; if it has passed, in the next millisecond."""
        if due_ms <= self.turn.now_ms:
            due_ms = self.turn.now_ms + 1
        if self.asked_ms == 0 or due_ms < self.asked_ms:
            timers = self.turn.timers
            if timers is not None:
                self.asked_ms = due_ms
                timers.ask(due_ms, self)
        return 0

    def schedule_next_check(self) -> int:
        """Have the timers call when the next message, or the queue itself, expires."""
        for level in self.queue.levels:
            expires_ms = level.head_expiry_ms()
            if expires_ms:
                self.schedule_check(expires_ms)
        if self.unused_ms_max is not None and not self.queue.consumers:
            self.schedule_check(self.turn.now_ms + self.lasts_ms(self.unused_ms_max))
        return 0

    def lasts_ms(self, unused_ms_max: int) -> int:
        """How long the queue lasts while it is unused."""
        return self.used_at_ms + unused_ms_max - self.turn.uptime_ms()

    def on_due(self, now_ms: int) -> None:
        queue = self.queue
        if queue.deleted or now_ms < self.asked_ms:
            return  # asked for once more, earlier or later
        self.asked_ms = 0
        unused_ms_max = None if queue.consumers else self.unused_ms_max
        if unused_ms_max is not None and self.lasts_ms(unused_ms_max) <= 0:
            queue.vhost.delete_queue(queue)
            queue.vhost.definitions.when_safe(lambda: None)
            return
        self.expire_heads(now_ms)
        if queue.rules is not None:
            queue.rules.make_room()
        self.schedule_next_check()

    def expire_heads(self, now_ms: int) -> bool:
        """Let go of those at the heads that have expired; True if there are more than a turn has time for."""
        queue = self.queue
        share: Share | None = None
        gone = 0
        for level in queue.levels:
            while 0 < level.head_expiry_ms() <= now_ms and level.front_at_hand() is not None:
                if gone == GONE_AT_ONCE and self.turn.timers is not None:
                    share = Share()
                elif share is not None and share.is_over():
                    return True
                queue.expire(queue.take_from(level))
                gone += 1
        return False

    def pieces(self) -> Pieces:
        """Drop all that have expired."""
        while self.expire_heads(self.turn.now_ms):
            yield
