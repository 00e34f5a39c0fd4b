"""Prometheus' text format, with RabbitMQ's names where the meaning is the same.

A scrape adds up counters that are kept anyway; it walks the queues in steps, between which messages pass.
"""

from __future__ import annotations

from embermq.http.context import RABBITMQ_VERSION, Context, open_files, resident_bytes
from embermq.http.listing import Pace
from embermq.http.request import Request, Response

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[str, str, str, float]  # name, kind, help, value


async def metrics(request: Request) -> Response:
    samples = await totals(request.context)
    lines = [identity(request.context)]
    for name, kind, help_text, value in samples:
        lines.append(f"# TYPE {name} {kind}\n# HELP {name} {help_text}\n{name} {value}\n")
    return Response(200, "".join(lines).encode(), CONTENT_TYPE)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def identity(context: Context) -> str:
    labels = (
        f'rabbitmq_node="{escaped(context.node)}",rabbitmq_cluster="{escaped(context.node)}",'
        f'rabbitmq_version="{RABBITMQ_VERSION}",embermq_version="{context.version}"'
    )
    return (
        "# TYPE rabbitmq_identity_info gauge\n# HELP rabbitmq_identity_info Node and version\n"
        f"rabbitmq_identity_info{{{labels}}} 1\n"
    )


async def totals(context: Context) -> list[Sample]:
    pace = Pace()
    sums = dict.fromkeys(("ready", "unacked", "published", "delivered", "acked", "redelivered"), 0)
    ready_bytes = consumers = paged = 0
    queues = context.broker.queues()
    for queue in queues:
        sums["ready"] += queue.ready_count
        sums["unacked"] += queue.unacked_count
        sums["published"] += queue.published_count
        sums["delivered"] += queue.delivered_count
        sums["acked"] += queue.acked_count
        sums["redelivered"] += queue.redelivered_count
        ready_bytes += queue.ready_bytes
        paged += sum(level.paged_count for level in queue.levels)
        consumers += len(queue.consumers)
        await pace.breathe()
    vhosts = context.broker.vhosts.values()
    sessions = context.sessions
    messages = sums["ready"] + sums["unacked"]
    return [
        ("rabbitmq_connections", "gauge", "Connections currently open", sessions.connection_count()),
        ("rabbitmq_channels", "gauge", "Channels currently open", sessions.channel_count()),
        ("rabbitmq_consumers", "gauge", "Consumers currently connected", consumers),
        ("rabbitmq_queues", "gauge", "Queues available", len(queues)),
        ("rabbitmq_exchanges", "gauge", "Exchanges available", sum(len(v.exchanges) for v in vhosts)),
        ("rabbitmq_queue_messages_ready", "gauge", "Messages ready for delivery", sums["ready"]),
        ("rabbitmq_queue_messages_unacked", "gauge", "Messages out with consumers", sums["unacked"]),
        ("rabbitmq_queue_messages", "gauge", "Ready and unacknowledged messages", messages),
        ("rabbitmq_queue_messages_ready_bytes", "gauge", "Size of ready messages in bytes", ready_bytes),
        ("rabbitmq_queue_messages_paged_out", "gauge", "Ready messages that are only on disk", paged),
        (
            "embermq_queue_messages_published_total",
            "counter",
            "Messages put into the queues that there are now",
            sums["published"],
        ),
        (
            "embermq_queue_messages_delivered_total",
            "counter",
            "Messages handed to consumers, or fetched",
            sums["delivered"],
        ),
        ("embermq_queue_messages_acked_total", "counter", "Messages settled", sums["acked"]),
        (
            "embermq_queue_messages_redelivered_total",
            "counter",
            "Messages handed out again",
            sums["redelivered"],
        ),
        (
            "rabbitmq_process_resident_memory_bytes",
            "gauge",
            "Resident memory of the broker",
            resident_bytes(),
        ),
        ("rabbitmq_process_open_fds", "gauge", "Open file descriptors", open_files()),
        ("embermq_uptime_seconds", "gauge", "Seconds since the start", context.uptime_ms / 1000),
    ]
