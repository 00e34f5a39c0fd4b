"""Sums over many queues, made in steps: there may be tens of thousands of them."""

from __future__ import annotations

from collections.abc import Iterable

from embermq.broker.tally import Tally
from embermq.broker.vhost import VirtualHost
from embermq.http.pace import Pace
from embermq.http.views import View


class Totals:
    def __init__(self) -> None:
        self.queues = 0
        self.exchanges = 0
        self.consumers = 0
        self.ready = 0
        self.ready_bytes = 0
        self.unacked = 0
        self.paged = 0
        self.tally = Tally()

    @property
    def message_stats(self) -> View:
        tally = self.tally
        return {
            "publish": tally.published,
            "deliver_get": tally.delivered,
            "ack": tally.acked,
            "redeliver": tally.redelivered,
        }

    @property
    def queue_totals(self) -> View:
        return {
            "messages": self.ready + self.unacked,
            "messages_ready": self.ready,
            "messages_unacknowledged": self.unacked,
        }


async def totals(vhosts: Iterable[VirtualHost]) -> Totals:
    pace, sums = Pace(), Totals()
    for vhost in vhosts:
        sums.tally.add(vhost.past)
        sums.exchanges += len(vhost.exchanges)
        sums.queues += len(vhost.queues)
        for queue in list(vhost.queues.values()):
            sums.tally.add_queue(queue)
            sums.consumers += len(queue.consumers)
            sums.ready += queue.ready_count
            sums.ready_bytes += queue.ready_bytes
            sums.unacked += queue.unacked_count
            sums.paged += sum(level.paged_count for level in queue.levels)
            await pace.breathe()
    return sums
