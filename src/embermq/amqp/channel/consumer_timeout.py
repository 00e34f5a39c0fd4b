"""Delivery acknowledgement timeout: the channel of a consumer that keeps a message for too long is closed.

It is not noted when a message is delivered: that would cost every message something. Instead each look at a
channel remembers how far its delivery tags have come. A delivery that is still out, and was out at a look
that is longer ago than the timeout, is overdue. So it may be found late by the time between two looks,
never early. Messages fetched by basic.get may be kept, as in RabbitMQ.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from embermq.amqp.channel.channel import Channel
from embermq.amqp.connection.connection import Connection
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.template import Defaults
from embermq.errors import PreconditionFailed

log = logging.getLogger("embermq.connection")

CHECKS_PER_TIMEOUT = 8
CONNECTIONS_PER_STEP = 25
PAUSE_MS_MAX = 10_000  # a consumer with a shorter timeout may come at any time
NEVER = 2**63

Marks = deque[tuple[int, int]]  # (time of a look, the last delivery tag then), oldest first


class DeliveryTimeouts:
    def __init__(self, connections: Callable[[], Iterable[Connection]], defaults: Defaults) -> None:
        self.connections = connections
        self.defaults = defaults
        self.marks: dict[Channel, Marks] = {}
        self.next_check_ms = 0
        self.ahead: Iterator[Connection] | None = None  # connections not checked yet
        self.seen: dict[Channel, Marks] = {}  # the marks of those that are
        self.shortest_ms = NEVER

    def tick(self, now_ms: int) -> bool:
        """Check all channels at intervals, a few connections in a step. True
        while there are more."""
        if self.ahead is None:
            if now_ms < self.next_check_ms:
                return False
            self.ahead, self.seen, self.shortest_ms = iter(list(self.connections())), {}, NEVER
        some = list(islice(self.ahead, CONNECTIONS_PER_STEP))
        for connection in some:
            try:
                for channel in list(connection.channels.values()):
                    self.check(connection, channel, now_ms)
            except Exception:  # what is wrong with one must not keep the others from being checked
                log.exception("a fault of ours in the search for overdue deliveries of %r", connection)
        if len(some) == CONNECTIONS_PER_STEP:
            return True
        self.ahead, self.marks = None, self.seen
        self.next_check_ms = now_ms + min(self.shortest_ms // CHECKS_PER_TIMEOUT, PAUSE_MS_MAX)
        return False

    def check(self, connection: Connection, channel: Channel, now_ms: int) -> None:
        consumers = [consumer for consumer in channel.consumers.values() if not consumer.no_ack]
        timeouts_ms = {self.timeout_ms(consumer.queue) for consumer in consumers}
        self.shortest_ms = min(self.shortest_ms, *timeouts_ms, NEVER)
        if channel.closing or not channel.unacked_count:
            return
        known = self.marks.get(channel) or deque()
        timeout_ms = self.overdue(channel, known, now_ms, min(timeouts_ms, default=0))
        if timeout_ms:
            close(connection, channel, timeout_ms)
            return
        if not known or known[-1][1] != channel.delivery_tag:
            known.append((now_ms, channel.delivery_tag))
        self.seen[channel] = known

    def timeout_ms(self, queue: Queue) -> int:
        own = queue.effective.get("x-consumer-timeout")
        timeout_ms = own if isinstance(own, int) else self.defaults.consumer_timeout_ms
        return timeout_ms or NEVER

    def overdue(self, channel: Channel, marks: Marks, now_ms: int, shortest_ms: int) -> int:
        """The timeout that a delivery has exceeded; 0 when there is none."""
        oldest = next(channel.outstanding()).delivery_tag
        while marks and marks[0][1] < oldest:
            marks.popleft()  # all of that time are acknowledged
        if not marks:
            return 0
        last_marked = marks[-1][1]
        remaining = iter(marks)
        since_ms, up_to = next(remaining)
        for entry in channel.outstanding():
            tag = entry.delivery_tag
            if tag > last_marked:
                break
            while tag > up_to:
                since_ms, up_to = next(remaining)
            timeout_ms = self.timeout_ms(entry.queue)
            if entry.consumer is not None and now_ms - since_ms >= timeout_ms:
                return timeout_ms
            if now_ms - since_ms < shortest_ms:
                break  # those behind are younger
        return 0


def close(connection: Connection, channel: Channel, timeout_ms: int) -> None:
    """As if the client had made a mistake on that channel; what it had goes back to its queues."""
    connection.current_channel = channel.number
    connection.refuse(
        PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. "
            f"Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more",
            blame=0,
        )
    )
