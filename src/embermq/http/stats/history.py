"""Samples of all counters, every five seconds, for rates and charts.

One walk over everything that counts, in short steps between which messages pass. Nothing is asked
of the message path: queues, exchanges and channels count anyway, and this only reads. What never changed has
no track; at most `LONG_TRACKS_MAX` queues, exchanges, channels and connections keep ten minutes, those beyond
keep what their rate needs, until more of them is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Sequence

from embermq.broker.broker import Broker
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.queue.queue import Queue
from embermq.broker.session_info import ChannelCounts
from embermq.http.server.cooperative import Steps, StepScheduler
from embermq.http.stats.time_series import STEP_MS, Track
from embermq.http.stats.totals import DELIVERIES, LENGTHS, Counting, Totals

# Seconds per sample, seconds kept: RabbitMQ's policies "global", "basic" and "detailed".
GLOBAL = ((5, 605), (60, 3660), (600, 29400), (1800, 86400))
BASIC = ((5, 605), (60, 3600))
DETAILED_S = 605
DETAILED = ((5, DETAILED_S),)
BRIEF = ((5, 5),)
LONG_TRACKS_MAX = 2000
THINGS_PER_LOOK = 32  # between two looks at the clock

QUEUE = (*LENGTHS, "publish", *DELIVERIES)
EXCHANGE = ("publish_in", "publish_out")
CHANNEL = (
    "messages_unacknowledged",
    "publish",
    "confirm",
    "return_unroutable",
    "deliver",
    "deliver_no_ack",
    "deliver_get",
    "ack",
)


def queue_values(queue: Queue) -> tuple[int, ...]:
    ready, unacked, delivered = queue.ready_count, queue.unacked_count, queue.delivered_count
    no_ack, got, got_no_ack = queue.no_ack_count, queue.get_count, queue.get_no_ack_count
    return (
        ready + unacked,
        ready,
        unacked,
        queue.published_count,
        delivered - no_ack - got - got_no_ack,
        no_ack,
        got,
        got_no_ack,
        queue.get_empty_count,
        delivered,
        queue.acked_count,
        queue.redelivered_count,
    )


def exchange_values(exchange: Exchange) -> tuple[int, ...]:
    return exchange.counts()[:2]


def channel_values(counts: ChannelCounts) -> tuple[int, ...]:
    return (
        counts.unacked,
        counts.received,
        counts.confirmed,
        counts.returned,
        counts.delivered - counts.delivered_no_ack,
        counts.delivered_no_ack,
        counts.delivered,
        counts.acked,
    )


class History:
    def __init__(self, broker: Broker, counting: Counting, scheduler: StepScheduler) -> None:
        self.broker = broker
        self.scheduler = scheduler
        self.counting = counting
        self.tracks: dict[Hashable, Track] = {}
        self.long_tracks = 0
        self.rounds = 0
        self.time_ms = 0  # of the last round
        self.elapsed_ms = STEP_MS  # between the last two
        self.sums: dict[str, Totals] = {}  # of the last round, by virtual host
        self.task: asyncio.Task[None] | None = None

    # -- sampling

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task = loop.create_task(self.go_on_sampling())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task

    async def go_on_sampling(self) -> None:
        while True:
            await self.sample()
            await asyncio.sleep(STEP_MS / 1000)

    async def sample(self) -> None:
        """One round: everything that counts is read once."""
        turn = self.broker.turn
        turn.refresh()
        self.elapsed_ms = max(turn.now_ms - self.time_ms, 1) if self.rounds else STEP_MS
        self.rounds += 1
        self.time_ms = turn.now_ms
        sums = {name: Totals() for name in self.broker.vhosts}
        await self.sample_things(sums)
        await self.sample_clients(sums)
        total = Totals()
        total.counters.add(self.broker.past)
        for name, vhost in list(self.broker.vhosts.items()):
            if name in sums:
                sums[name].counters.add(vhost.past)
                sums[name].exchanges = len(vhost.exchanges)
                total.add(sums[name])
                self.put(("vhost", name), sums[name].values(), BASIC)
        self.put("overview", total.values(), GLOBAL)
        self.sums = sums
        for key in [key for key, track in self.tracks.items() if track.seen != self.rounds]:
            self.drop(key)

    async def sample_things(self, sums: dict[str, Totals]) -> None:
        steps = Steps(self.scheduler)
        met = 0
        for vhost in list(self.broker.vhosts.values()):
            if vhost.name not in sums:
                continue
            sum_of = sums[vhost.name]
            for queue in list(vhost.queues.values()):
                sum_of.add_queue(queue)
                self.put(queue, queue_values(queue), DETAILED)
                met += 1
                if met % THINGS_PER_LOOK == 0:
                    await steps.pause()
            for exchange in list(vhost.exchanges.values()):
                sum_of.counters.add_exchange(*exchange.counts())
                self.put(exchange, exchange_values(exchange), DETAILED)
                met += 1
                if met % THINGS_PER_LOOK == 0:
                    await steps.pause()

    async def sample_clients(self, sums: dict[str, Totals]) -> None:
        steps = Steps(self.scheduler)
        for counts in self.counting.connection_counts():
            sum_of = sums.get(counts.vhost)
            if sum_of is not None:
                sum_of.add_connection(counts)
            self.put(counts.number, (counts.received_bytes, counts.sent_bytes), DETAILED)
            for channel in counts.channels:
                self.put((counts.number, channel.number), channel_values(channel), DETAILED)
            await steps.pause()

    def put(self, key: Hashable, values: Sequence[int], resolutions: Sequence[tuple[int, int]]) -> None:
        track = self.tracks.get(key)
        if track is None:
            if not any(values):
                return
            if resolutions is DETAILED:
                if self.long_tracks < LONG_TRACKS_MAX:
                    self.long_tracks += 1
                else:
                    resolutions = BRIEF
            # What is new began with nothing; what was there when we came, with what it had.
            baseline = values if self.rounds == 1 else [0] * len(values)
            track = Track(len(values), resolutions, self.time_ms - self.elapsed_ms, baseline)
            self.tracks[key] = track
        track.seen = self.rounds
        track.put(self.time_ms, values)

    def drop(self, key: Hashable) -> None:
        track = self.tracks.pop(key)
        if len(track.rings) == 1 and track.rings[0].rows_max > BRIEF[0][1] // BRIEF[0][0] + 2:
            self.long_tracks -= 1

    # -- looking

    def track(self, key: Hashable, lengthen: bool = False) -> Track | None:
        track = self.tracks.get(key)
        if lengthen and track is not None and len(track.rings) == 1:
            track.lengthen(DETAILED_S)
        return track

    def reset(self) -> None:
        """Forget all samples; the next round begins anew."""
        self.tracks.clear()
        self.long_tracks = self.rounds = 0
