"""Metrics for Prometheus, with RabbitMQ's names where the meaning is the same.

A scrape adds up counters that are kept anyway. `/metrics` has sums and no names of things, so it asks for no
login; the others do.
"""

from __future__ import annotations

import gc
import platform
import resource
import time

from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.controllers.pipelines import put_pipelines
from embermq.http.metrics.exposition import CONTENT_TYPE, Exposition, labelled
from embermq.http.metrics.families import COUNTER, FAMILIES, GAUGE, put_each, put_sums
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, words
from embermq.http.server.context import RABBITMQ_VERSION, Context, open_files, resident_bytes
from embermq.http.server.request import Request, Response, bad_request
from embermq.http.stats.totals import Totals, totals

PREFIX, DETAILED_PREFIX = "rabbitmq_", "rabbitmq_detailed_"
CLASSIC = "rabbit_classic_queue"
REASONS = ("expired", "rejected", "maxlen", "delivery_limit", "deleted")
DETAILED = (
    words("family", f"one or more, with commas between: {', '.join(sorted(FAMILIES))}"),
    words("vhost", "only of this virtual host"),
)


@describes("Sums for Prometheus.", answer=schemas.TEXT, content_type="text/plain")
async def metrics(request: Request) -> Response:
    context, vhosts = request.context, list(request.context.broker.vhosts.values())
    out, sums = await of_the_broker(context, "aggregated")
    put_sums_of_channels(out, sums)
    await put_sums(out, context, vhosts)
    return Response(200, out.text(), CONTENT_TYPE)


@describes("Metrics of each queue, channel and so on.", answer=schemas.TEXT, content_type="text/plain")
async def per_object(request: Request) -> Response:
    out, _ = await of_the_broker(request.context, "per-object")
    vhosts = visible_vhosts(request)
    await put_each(out, request.context, vhosts)
    put_pipelines(out, request.context.pipelines, vhosts)
    return Response(200, out.text(), CONTENT_TYPE)


@describes("Some metrics of each thing.", query=DETAILED, answer=schemas.TEXT, content_type="text/plain")
async def detailed(request: Request) -> Response:
    families = [name for value in request.all("family") for name in value.split(",") if name]
    unknown = sorted(set(families) - FAMILIES)
    if unknown:
        raise bad_request(f"unknown families: {', '.join(unknown)[:200]}")
    wanted = request.all("vhost")
    vhosts: list[VirtualHost] = [v for v in visible_vhosts(request) if not wanted or v.name in wanted]
    out = Exposition(DETAILED_PREFIX)
    await put_each(out, request.context, vhosts, families)
    about = Exposition(PREFIX)
    put_identity(about, request.context, "detailed")
    return Response(200, out.text() + about.text(), CONTENT_TYPE)


async def of_the_broker(context: Context, endpoint: str) -> tuple[Exposition, Totals]:
    sums = await totals(context.broker.vhosts.values(), context.sessions, context.scheduler)
    sums.counters.add(context.broker.past)
    out = Exposition(PREFIX)
    put_identity(out, context, endpoint)
    put_things(out, sums)
    put_global(out, sums)
    put_resources(out, context)
    put_ours(out, context, sums)
    return out, sums


def put_identity(out: Exposition, context: Context, endpoint: str) -> None:
    """`endpoint` is RabbitMQ's word for what is asked for; dashboards choose one of them by it."""
    out.add(
        "build_info",
        GAUGE,
        "Versions",
        1,
        rabbitmq_version=RABBITMQ_VERSION,
        prometheus_plugin_version=context.version,
        prometheus_client_version=context.version,
        erlang_version=f"Python {platform.python_version()}",
        product_name="EmberMQ",
        product_version=context.version,
    )
    out.add(
        "identity_info",
        GAUGE,
        "Which node of which cluster this is",
        1,
        rabbitmq_node=context.node,
        rabbitmq_cluster=context.node,
        rabbitmq_cluster_permanent_id=context.node,
        rabbitmq_endpoint=endpoint,
    )


def put_things(out: Exposition, sums: Totals) -> None:
    counters = sums.counters
    out.add("connections", GAUGE, "Connections currently open", sums.connections)
    out.add("channels", GAUGE, "Channels currently open", sums.channels)
    out.add("consumers", GAUGE, "Consumers currently connected", sums.consumers)
    out.add("queues", GAUGE, "Queues available", sums.queues)
    out.add("exchanges", GAUGE, "Exchanges available", sums.exchanges)
    opened = counters.connections_opened
    out.add("connections_opened_total", COUNTER, "Connections opened", opened)
    out.add("connections_closed_total", COUNTER, "Connections closed", opened - sums.connections)
    out.add("channels_opened_total", COUNTER, "Channels opened", counters.channels_opened)
    out.add("channels_closed_total", COUNTER, "Channels closed", counters.channels_closed)
    out.add("queues_declared_total", COUNTER, "Queue declarations", counters.queues_declared)
    out.add("queues_created_total", COUNTER, "Queues created", counters.queues_created)
    out.add("queues_deleted_total", COUNTER, "Queues deleted", counters.queues_deleted)


def put_global(out: Exposition, sums: Totals) -> None:
    counters = sums.counters
    protocol = {"protocol": "amqp091"}
    for name, about, value in (
        ("received", "Messages received from publishers", counters.received),
        ("received_confirm", "Messages received that are to be confirmed", counters.received_confirm),
        ("confirmed", "Messages confirmed to publishers", counters.confirmed),
        ("routed", "Copies of messages put into queues", counters.routed),
        ("unroutable_returned", "Messages that no queue was for, returned", counters.returned),
        (
            "unroutable_dropped",
            "Messages that no queue was for, dropped",
            counters.unroutable - counters.returned,
        ),
    ):
        out.add(f"global_messages_{name}_total", COUNTER, about, value, **protocol)
    by_hand = counters.got + counters.got_no_ack
    for name, about, value in (
        ("delivered", "Messages handed out", counters.delivered),
        (
            "delivered_consume_manual_ack",
            "Messages delivered to consumers that acknowledge",
            counters.delivered - counters.delivered_no_ack - by_hand,
        ),
        (
            "delivered_consume_auto_ack",
            "Messages delivered to consumers that do not",
            counters.delivered_no_ack,
        ),
        ("delivered_get_manual_ack", "Messages got with basic.get, to be acknowledged", counters.got),
        ("delivered_get_auto_ack", "Messages got with basic.get without", counters.got_no_ack),
        ("get_empty", "basic.get on empty queues", counters.got_empty),
        ("redelivered", "Messages handed out again", counters.redelivered),
        ("acknowledged", "Messages acknowledged", counters.acked),
    ):
        out.add(f"global_messages_{name}_total", COUNTER, about, value, **protocol, queue_type=CLASSIC)
    out.add("global_publishers", GAUGE, "Channels that have published", sums.publishers, **protocol)
    out.add("global_consumers", GAUGE, "Consumers", sums.consumers, **protocol)
    for reason in REASONS:
        name = f"global_messages_dead_lettered_{reason}_total"
        out.family(name, COUNTER, f"Messages that became dead letters, or were dropped: {reason}")
        counts = {"at_least_once": f"dead_{reason}", "disabled": f"dropped_{reason}"}
        for strategy, count in counts.items():
            if hasattr(counters, count):
                labels = labelled({"queue_type": CLASSIC, "dead_letter_strategy": strategy})
                out.sample(name, getattr(counters, count), labels)


def put_sums_of_channels(out: Exposition, sums: Totals) -> None:
    """The same numbers under the names that older dashboards and alert rules know."""
    counters = sums.counters
    by_hand = counters.got + counters.got_no_ack
    for name, about, value in (
        ("channel_messages_published", "Messages published", counters.received),
        ("channel_messages_confirmed", "Messages confirmed", counters.confirmed),
        (
            "channel_messages_unroutable_returned",
            "Messages that no queue was for, returned",
            counters.returned,
        ),
        (
            "channel_messages_unroutable_dropped",
            "Messages that no queue was for, dropped",
            counters.unroutable - counters.returned,
        ),
        (
            "channel_messages_delivered",
            "Messages delivered without acknowledgement",
            counters.delivered_no_ack,
        ),
        (
            "channel_messages_delivered_ack",
            "Messages delivered, to be acknowledged",
            counters.delivered - counters.delivered_no_ack - by_hand,
        ),
        ("channel_messages_acked", "Messages acknowledged", counters.acked),
        ("channel_messages_redelivered", "Messages handed out again", counters.redelivered),
        ("channel_get_ack", "Messages got with basic.get, to be acknowledged", counters.got),
        ("channel_get", "Messages got with basic.get without", counters.got_no_ack),
        ("channel_get_empty", "basic.get on empty queues", counters.got_empty),
        ("queue_messages_published", "Messages put into queues", counters.routed),
    ):
        out.add(f"{name}_total", COUNTER, about, value)


def put_resources(out: Exposition, context: Context) -> None:
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    alarms = context.broker.alarms.raised
    out.add("process_resident_memory_bytes", GAUGE, "Resident memory of the broker", resident_bytes())
    out.add("process_open_fds", GAUGE, "Open file descriptors", open_files())
    out.add("process_max_fds", GAUGE, "Limit of open file descriptors", files_max)
    out.add("process_open_tcp_sockets", GAUGE, "Sockets of clients", context.sessions.connection_count())
    out.add("process_max_tcp_sockets", GAUGE, "Limit of sockets", files_max)
    disk = any("disk" in name for name in alarms)
    out.add("alarms_memory_used_watermark", GAUGE, "1 while memory is low", int("memory" in alarms))
    out.add("alarms_free_disk_space_watermark", GAUGE, "1 while the disk is nearly full", int(disk))
    out.add("alarms_file_descriptor_limit", GAUGE, "1 while there are no descriptors left", 0)
    out.add("erlang_uptime_seconds", GAUGE, "Seconds since the start", context.uptime_ms / 1000)
    runs = sum(generation["collections"] for generation in gc.get_stats())
    out.add("erlang_gc_runs_total", COUNTER, "Garbage collections, of Python", runs)
    for name, measure in context.measures.items():
        if name.endswith("limit_bytes"):
            out.add(name, GAUGE, "The limit that raises an alarm", measure())
    storage = context.broker.storage
    if storage is not None:
        syncs = storage.data.committer.sync_times
        out.add("disk_space_available_bytes", GAUGE, "Free space on disk", storage.data.free_bytes())
        out.add("io_sync_ops_total", COUNTER, "Rounds of syncing", syncs.count)
        out.add("io_sync_time_seconds_total", COUNTER, "Time spent syncing", round(syncs.sum, 9))


def put_ours(out: Exposition, context: Context, sums: Totals) -> None:
    ours, broker = Exposition(), context.broker
    ours.add_histogram("embermq_turn_seconds", "Time of a turn's work, of every 16th", broker.turn.times)
    if broker.storage is not None:
        ours.add_histogram(
            "embermq_sync_seconds", "Time of a round of syncing", broker.storage.data.committer.sync_times
        )
    ours.add("embermq_messages_delayed", GAUGE, "Messages that wait for a time", sums.delayed)
    leases = [lease for vhost in broker.vhosts.values() for lease in vhost.leases.open_ones()]
    ages_ms = [broker.turn.now_ms - lease.created_ms for lease in leases]
    ours.add("embermq_leases", GAUGE, "Open leases", len(leases))
    ours.add("embermq_lease_messages", GAUGE, "Messages in leases", sum(lease.count for lease in leases))
    ours.add("embermq_lease_age_seconds", GAUGE, "Of the oldest lease", max(ages_ms, default=0) / 1000)
    ours.add("embermq_deduplication_ids", GAUGE, "Identities of messages remembered", sums.deduplication_ids)
    ours.add(
        "embermq_messages_duplicate_total",
        COUNTER,
        "Duplicates recognised, dropped",
        sums.counters.duplicates,
    )
    ours.add("embermq_tasks_running", GAUGE, "Long work under way", len(broker.tasks.running))
    for name, measure in context.measures.items():
        if not name.endswith("limit_bytes"):
            kind = COUNTER if name.endswith("_total") else GAUGE
            ours.add(f"embermq_{name}", kind, name.replace("_", " ").capitalize(), measure())
    ours.add("embermq_received_bytes", GAUGE, "Bytes received on open connections", sums.received_bytes)
    ours.add("embermq_sent_bytes", GAUGE, "Bytes sent on open connections", sums.sent_bytes)
    times = resource.getrusage(resource.RUSAGE_SELF)
    cpu = round(times.ru_utime + times.ru_stime, 3)
    ours.add("process_cpu_seconds_total", COUNTER, "CPU time of the broker", cpu)
    started = round(time.time() - context.uptime_ms / 1000, 3)
    ours.add("process_start_time_seconds", GAUGE, "When the broker started", started)
    out.parts.extend(ours.parts)
