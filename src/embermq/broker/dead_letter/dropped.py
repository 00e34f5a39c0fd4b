"""Counts and warnings of messages dropped because their queue has no dead-letter exchange.

All are counted. Those that a delivery limit drops are reported: it was not asked for explicitly, as
a time to live or a length is, and the default limit of quorum queues is easily overlooked. One
line of the log and one event for each queue say how many there were, at most once a minute.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embermq.broker.events import messages_dropped

if TYPE_CHECKING:
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.queue")

DELIVERY_LIMIT = "delivery_limit"
SOON_MS = 1000  # others may follow
PAUSE_MS = 60_000
WARNING = (
    "queue '%s' in vhost '%s': %d message(s) dropped that came back more often than its delivery limit "
    "allows; it has no dead-letter exchange to keep them"
)
QUEUES_WARNED_MAX = 50  # of each time


class Dropped:
    """Of one virtual host."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.untold: dict[str, int] = {}  # messages that a delivery limit has dropped, by queue
        self.next_ms = 0  # not before that
        self.asked = False

    def add(self, queue: Queue, reason: str, count: int) -> None:
        self.vhost.past.count_dropped(reason, count)
        if reason == DELIVERY_LIMIT and not self.vhost.closing:
            self.untold[queue.name] = self.untold.get(queue.name, 0) + count
            self.look_again()

    def look_again(self) -> None:
        timers, now_ms = self.vhost.turn.timers, self.vhost.turn.now_ms
        if timers is None:
            self.tell()
        elif not self.asked:
            self.asked = True
            timers.ask(max(now_ms + SOON_MS, self.next_ms), self)

    def on_due(self, now_ms: int) -> None:
        self.asked = False
        self.next_ms = now_ms + PAUSE_MS
        self.tell()

    def tell(self) -> None:
        untold, self.untold = list(self.untold.items()), {}
        vhost = self.vhost
        for name, count in untold[:QUEUES_WARNED_MAX]:
            log.warning(WARNING, name, vhost.name, count)
            vhost.events.emit("message.dropped", messages_dropped, vhost.name, name, count)
        if len(untold) > QUEUES_WARNED_MAX:
            others = untold[QUEUES_WARNED_MAX:]
            text = "%d other queues in vhost '%s' have dropped %d messages by their delivery limits"
            log.warning(text, len(others), vhost.name, sum(count for _, count in others))
