"""Sums over many queues, exchanges and clients, made in steps: there may be tens of thousands of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from embermq.broker.counters import Counters
from embermq.broker.queue.queue import Queue
from embermq.broker.session_info import ConnectionCounts
from embermq.broker.vhost import VirtualHost
from embermq.http.server.cooperative import Steps, StepScheduler

LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
DELIVERIES = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "deliver_get",
    "ack",
    "redeliver",
)
PUBLISHING = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DATA = ("recv_oct", "send_oct")
CHURN = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
COLUMNS = (*LENGTHS, *PUBLISHING, *DELIVERIES, *DATA, *CHURN)  # of `Totals.values`


class Counting(Protocol):
    """What the room of the connections tells of what was counted there."""

    def connection_counts(self) -> Iterable[ConnectionCounts]: ...

    def connection_count(self) -> int: ...


class Totals:
    def __init__(self) -> None:
        self.queues = 0
        self.exchanges = 0
        self.consumers = 0
        self.ready = 0
        self.ready_bytes = 0
        self.unacked = 0
        self.paged = 0
        self.delayed = 0
        self.deduplication_ids = 0
        self.connections = 0
        self.channels = 0
        self.publishers = 0  # channels that have published
        self.received_bytes = 0
        self.sent_bytes = 0
        self.counters = Counters()

    def add(self, other: Totals) -> None:
        for name, value in vars(other).items():
            if name != "counters":
                setattr(self, name, getattr(self, name) + value)
        self.counters.add(other.counters)

    def add_queue(self, queue: Queue) -> None:
        self.queues += 1
        self.consumers += len(queue.consumers)
        self.ready += queue.ready_count
        self.ready_bytes += queue.body_bytes()
        self.unacked += queue.unacked_count
        self.paged += sum(level.paged_count for level in queue.levels)
        if queue.rules is not None and queue.rules.deduplication is not None:
            self.deduplication_ids += queue.rules.deduplication.count
        queue.add_counts_to(self.counters)

    def add_connection(self, counts: ConnectionCounts) -> None:
        self.connections += 1
        self.channels += len(counts.channels)
        self.received_bytes += counts.received_bytes
        self.sent_bytes += counts.sent_bytes
        for channel in counts.channels:
            self.publishers += channel.received > 0
            self.counters.add_channel(channel.received_confirm, channel.confirmed, channel.returned)

    def values(self) -> tuple[int, ...]:
        """What is sampled, in the order of COLUMNS."""
        counters = self.counters
        return (
            self.ready + self.unacked,
            self.ready,
            self.unacked,
            counters.received,
            counters.confirmed,
            counters.returned,
            counters.unroutable - counters.returned,
            counters.delivered - counters.delivered_no_ack - counters.got - counters.got_no_ack,
            counters.delivered_no_ack,
            counters.got,
            counters.got_no_ack,
            counters.got_empty,
            counters.delivered,
            counters.acked,
            counters.redelivered,
            self.received_bytes,
            self.sent_bytes,
            counters.connections_opened,
            counters.connections_opened - self.connections,
            counters.channels_opened,
            counters.channels_closed,
            counters.queues_declared,
            counters.queues_created,
            counters.queues_deleted,
        )


async def totals(vhosts: Iterable[VirtualHost], counting: Counting, scheduler: StepScheduler) -> Totals:
    total = Totals()
    for sums in (await totals_by_vhost(vhosts, counting, scheduler)).values():
        total.add(sums)
    return total


async def totals_by_vhost(
    vhosts: Iterable[VirtualHost], counting: Counting, scheduler: StepScheduler
) -> dict[str, Totals]:
    steps, by_vhost = Steps(scheduler), dict[str, Totals]()
    for vhost in vhosts:
        sums = by_vhost[vhost.name] = Totals()
        sums.counters.add(vhost.past)
        sums.exchanges = len(vhost.exchanges)
        sums.delayed = vhost.delays.count
        for exchange in list(vhost.exchanges.values()):
            sums.counters.add_exchange(*exchange.counts())
        for queue in list(vhost.queues.values()):
            sums.add_queue(queue)
            await steps.pause()
    for counts in counting.connection_counts():
        if counts.vhost in by_vhost:
            by_vhost[counts.vhost].add_connection(counts)
        await steps.pause()
    return by_vhost
