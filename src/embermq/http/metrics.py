"""Prometheus' text format, with RabbitMQ's names where the meaning is the same.

A scrape adds up counters that are kept anyway.
"""

from __future__ import annotations

from embermq.http import schemas
from embermq.http.context import RABBITMQ_VERSION, Context, open_files, resident_bytes
from embermq.http.describing import describes
from embermq.http.request import Request, Response
from embermq.http.totals import totals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GLOBAL = "rabbitmq_global_messages"

Sample = tuple[str, str, str, float]  # name, kind, help, value


@describes("Sums for Prometheus.", answer=schemas.TEXT, content_type="text/plain")
async def metrics(request: Request) -> Response:
    samples = await samples_of(request.context)
    lines = [identity(request.context)]
    for name, kind, help_text, value in samples:
        labels = '{protocol="amqp091"}' if name.startswith(GLOBAL) else ""
        lines.append(f"# TYPE {name} {kind}\n# HELP {name} {help_text}\n{name}{labels} {value}\n")
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


async def samples_of(context: Context) -> list[Sample]:
    sums, sessions = await totals(context.broker.vhosts.values(), context.sessions), context.sessions
    tally = sums.tally
    tally.add(context.broker.past)
    return [
        ("rabbitmq_connections", "gauge", "Connections currently open", sessions.connection_count()),
        ("rabbitmq_channels", "gauge", "Channels currently open", sessions.channel_count()),
        ("rabbitmq_consumers", "gauge", "Consumers currently connected", sums.consumers),
        ("rabbitmq_queues", "gauge", "Queues available", sums.queues),
        ("rabbitmq_exchanges", "gauge", "Exchanges available", sums.exchanges),
        ("rabbitmq_queue_messages_ready", "gauge", "Messages ready for delivery", sums.ready),
        ("rabbitmq_queue_messages_unacked", "gauge", "Messages out with consumers", sums.unacked),
        ("rabbitmq_queue_messages", "gauge", "Ready and unacknowledged messages", sums.ready + sums.unacked),
        ("rabbitmq_queue_messages_ready_bytes", "gauge", "Size of ready messages in bytes", sums.ready_bytes),
        ("rabbitmq_queue_messages_paged_out", "gauge", "Ready messages that are only on disk", sums.paged),
        (f"{GLOBAL}_routed_total", "counter", "Messages put into queues", tally.published),
        (f"{GLOBAL}_delivered_total", "counter", "Messages handed to consumers", tally.delivered),
        (f"{GLOBAL}_redelivered_total", "counter", "Messages handed out again", tally.redelivered),
        ("embermq_messages_delayed", "gauge", "Messages that wait for a time", sums.delayed),
        ("embermq_messages_settled_total", "counter", "Messages done with, by ack or no-ack", tally.acked),
        ("embermq_deduplication_ids", "gauge", "Identities of messages remembered", sums.deduplication_ids),
        (
            "embermq_messages_duplicate_total",
            "counter",
            "Duplicates recognised, dropped",
            tally.duplicates,
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
