"""Metrics of each queue, exchange, connection and channel, in RabbitMQ's families.

`/metrics` has the sums of these, `/metrics/per-object` all of them, `/metrics/detailed?family=...` some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from embermq.broker.queue.queue import Queue
from embermq.broker.session_info import ChannelInfo, ConnectionInfo
from embermq.broker.vhost import VirtualHost
from embermq.http.metrics.exposition import Exposition, labelled
from embermq.http.server.context import Context
from embermq.http.server.cooperative import Steps

GAUGE, COUNTER = "gauge", "counter"


class Metric(NamedTuple):
    family: str  # RabbitMQ's word for a group of metrics
    name: str
    kind: str
    about: str
    value: Callable[[Any], float]


def paged(queue: Queue) -> int:
    return sum(level.paged_count for level in queue.levels)


def in_memory(queue: Queue) -> int:
    beside = (level.returned.count for level in queue.levels if level.returned is not None)
    return sum(level.ring.count for level in queue.levels) + sum(beside)


QUEUES = (
    Metric("queue_coarse_metrics", "queue_messages_ready", GAUGE, "Messages ready for delivery",
           lambda q: q.ready_count),
    Metric("queue_coarse_metrics", "queue_messages_unacked", GAUGE, "Messages out with consumers",
           lambda q: q.unacked_count),
    Metric("queue_coarse_metrics", "queue_messages", GAUGE, "Ready and unacknowledged messages",
           lambda q: q.ready_count + q.unacked_count),
    Metric("queue_consumer_count", "queue_consumers", GAUGE, "Consumers", lambda q: len(q.consumers)),
    Metric("queue_metrics", "queue_messages_ram", GAUGE, "Ready messages that are in memory", in_memory),
    Metric("queue_metrics", "queue_messages_ready_bytes", GAUGE, "Bytes in the bodies of ready messages",
           lambda q: q.body_bytes()),
    Metric("queue_metrics", "queue_messages_unacked_bytes", GAUGE,
           "Bytes in the bodies of messages out with consumers", lambda q: q.unacked_bytes),
    Metric("queue_metrics", "queue_messages_bytes", GAUGE,
           "Bytes in the bodies of ready and unacknowledged messages",
           lambda q: q.body_bytes() + q.unacked_bytes),
    Metric("queue_metrics", "queue_messages_paged_out", GAUGE, "Ready messages that are only on disk", paged),
    Metric("queue_delivery_metrics", "queue_messages_published_total", COUNTER, "Messages put into queues",
           lambda q: q.published_count),
    Metric("queue_delivery_metrics", "queue_messages_delivered_total", COUNTER,
           "Messages handed out without acknowledgement", lambda q: q.no_ack_count),
    Metric("queue_delivery_metrics", "queue_messages_delivered_ack_total", COUNTER,
           "Messages handed out, to be acknowledged",
           lambda q: q.delivered_count - q.no_ack_count - q.get_count - q.get_no_ack_count),
    Metric("queue_delivery_metrics", "queue_messages_acked_total", COUNTER, "Messages acknowledged",
           lambda q: q.acked_count),
    Metric("queue_delivery_metrics", "queue_messages_redelivered_total", COUNTER, "Messages handed out again",
           lambda q: q.redelivered_count),
    Metric("queue_delivery_metrics", "queue_get_empty_total", COUNTER, "basic.get on an empty queue",
           lambda q: q.get_empty_count),
)  # fmt: skip
STREAMS = (
    Metric("stream_metrics", "stream_first_offset", GAUGE, "The oldest offset that is kept",
           lambda stream: stream.first_offset),
    Metric("stream_metrics", "stream_committed_offset", GAUGE, "Messages below this offset are safe on disk",
           lambda stream: stream.safe_end),
    Metric("stream_metrics", "stream_segments", GAUGE, "Segment files",
           lambda stream: len(stream.log.segments)),
    Metric("stream_metrics", "stream_disk_bytes", GAUGE, "Bytes on disk",
           lambda stream: stream.log.bytes_on_disk),
)  # fmt: skip
CHANNELS = (
    Metric("channel_metrics", "channel_consumers", GAUGE, "Consumers on a channel",
           lambda c: c.consumer_count),
    Metric("channel_metrics", "channel_messages_unacked", GAUGE, "Deliveries not yet acknowledged",
           lambda c: c.unacked_count),
    Metric("channel_metrics", "channel_messages_unconfirmed", GAUGE, "Publishes not yet confirmed",
           lambda c: c.counts.received_confirm - c.counts.confirmed),
    Metric("channel_metrics", "channel_prefetch", GAUGE, "Limit of deliveries for the whole channel",
           lambda c: c.shared_prefetch_count),
    Metric("channel_metrics", "consumer_prefetch", GAUGE, "Limit of deliveries for each consumer",
           lambda c: c.prefetch_count),
    Metric("channel_exchange_metrics", "channel_messages_published_total", COUNTER, "Messages published",
           lambda c: c.counts.received),
    Metric("channel_exchange_metrics", "channel_messages_confirmed_total", COUNTER, "Messages confirmed",
           lambda c: c.counts.confirmed),
    Metric("channel_exchange_metrics", "channel_messages_unroutable_returned_total", COUNTER,
           "Messages that no queue was for, returned", lambda c: c.counts.returned),
    Metric("channel_queue_metrics", "channel_messages_delivered_total", COUNTER,
           "Messages delivered without acknowledgement", lambda c: c.counts.delivered_no_ack),
    Metric("channel_queue_metrics", "channel_messages_delivered_ack_total", COUNTER,
           "Messages delivered, to be acknowledged",
           lambda c: c.counts.delivered - c.counts.delivered_no_ack),
    Metric("channel_queue_metrics", "channel_messages_acked_total", COUNTER, "Messages acknowledged",
           lambda c: c.counts.acked),
)  # fmt: skip
CONNECTIONS = (
    Metric("connection_coarse_metrics", "connection_incoming_bytes_total", COUNTER, "Bytes received",
           lambda c: c.received_bytes),
    Metric("connection_coarse_metrics", "connection_outgoing_bytes_total", COUNTER, "Bytes sent",
           lambda c: c.sent_bytes),
    Metric("connection_metrics", "connection_channels", GAUGE, "Channels on a connection",
           lambda c: c.channel_count),
)  # fmt: skip
EXCHANGES = (
    Metric("exchange_metrics", "exchange_messages_published_in_total", COUNTER, "Messages published to it",
           lambda e: e.counts()[0]),
    Metric("exchange_metrics", "exchange_messages_published_out_total", COUNTER, "Copies put into queues",
           lambda e: e.counts()[1]),
)  # fmt: skip
FAMILIES = {metric.family for metric in (*QUEUES, *STREAMS, *CHANNELS, *CONNECTIONS, *EXCHANGES)}


def queue_labels(queue: Queue) -> str:
    return labelled({"vhost": queue.vhost.name, "queue": queue.name})


def exchange_labels(exchange: Any) -> str:
    return labelled({"vhost": exchange.vhost.name, "exchange": exchange.name})


def channel_labels(info: ChannelInfo) -> str:
    return labelled({"channel": info.name})


def connection_labels(info: ConnectionInfo) -> str:
    return labelled({"connection": info.name})


def groups(
    context: Context, vhosts: list[VirtualHost]
) -> Iterator[tuple[tuple[Metric, ...], list[Any], Any]]:
    """(metrics, the things that have them, how to label one); things are looked for when their turn comes."""
    names = {vhost.name for vhost in vhosts}
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    yield QUEUES, queues, queue_labels
    yield STREAMS, [queue for queue in queues if not queue.messages_leave], queue_labels
    yield EXCHANGES, [e for vhost in vhosts for e in vhost.exchanges.values()], exchange_labels
    connections = [info for info in context.sessions.connections() if info.vhost in names]
    yield CONNECTIONS, connections, connection_labels
    channels = [info for info in context.sessions.channels() if info.connection.vhost in names]
    yield CHANNELS, channels, channel_labels


async def put_each(
    out: Exposition, context: Context, vhosts: list[VirtualHost], families: Iterable[str] | None = None
) -> None:
    """Every thing on a line of its own."""
    steps = Steps(context.scheduler)
    for metrics, things, labels_of in groups(context, vhosts):
        wanted = [metric for metric in metrics if families is None or metric.family in families]
        labels: list[str] = []
        for thing in things if wanted else []:
            labels.append(labels_of(thing))
            await steps.pause()
        for metric in wanted:
            out.family(metric.name, metric.kind, metric.about)
            for thing, label in zip(things, labels, strict=True):
                out.sample(metric.name, metric.value(thing), label)
                await steps.pause()


async def put_sums(out: Exposition, context: Context, vhosts: list[VirtualHost]) -> None:
    """The gauges of all things added up. Counters are not here: the sum would fall when a thing goes."""
    steps = Steps(context.scheduler)
    for metrics, things, _ in groups(context, vhosts):
        gauges = [metric for metric in metrics if metric.kind == GAUGE and metric.family != "stream_metrics"]
        sums = [0.0] * len(gauges)
        for thing in things:
            for index, metric in enumerate(gauges):
                sums[index] += metric.value(thing)
            await steps.pause()
        for metric, total in zip(gauges, sums, strict=True):
            out.add(metric.name, metric.kind, metric.about, int(total))
