"""Descriptions of queues, streams, super streams and leases as JSON: the answers to `x-describe`."""

from __future__ import annotations

import json
from collections.abc import Callable

from embermq.broker.deduplication.deduplication import window_from
from embermq.broker.incremental_work import Share
from embermq.broker.lease.lease import Lease
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import composed
from embermq.broker.queue.browse_queue import Feed
from embermq.broker.queue.queue import Queue
from embermq.broker.stream.super_stream import is_super_stream, partitions
from embermq.broker.vhost import VirtualHost
from embermq.wire.properties import Properties

CLOCK_INTERVAL_COUNT = 100  # queues between two readings of the clock


def description_of_queue(queue: Queue, time_ms: int | None) -> dict[str, object]:
    queue.measure_soon()
    found: dict[str, object] = {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "type": queue.arguments.get("x-queue-type", "classic"),
        "durable": bool(queue.durable),
        "messages_ready": queue.ready_count,
        "messages_unacknowledged": queue.unacked_count,
        "consumers": len(queue.consumers),
        "bytes": queue.body_bytes(),
    }
    deduplication = window_from(queue.effective)
    if deduplication is not None and queue.messages_leave:
        found["deduplication"] = {
            "header": deduplication.header,
            "window": deduplication.window_ms,
            "count": deduplication.count_max,
        }
    if not queue.messages_leave:
        found |= {"id": queue.id, **queue.offset_facts(time_ms)}
    return found


def description_of_super_stream(vhost: VirtualHost, name: str) -> dict[str, object] | None:
    exchange = vhost.exchanges.get(name)
    if exchange is None or not is_super_stream(exchange):
        return None
    names = [binding.destination.name for binding in partitions(exchange)]
    return {"name": name, "vhost": vhost.name, "type": "super-stream", "partitions": names}


def description_of_lease(lease: Lease) -> dict[str, object]:
    return {
        "name": lease.name,
        "queue": lease.queue.name,
        "vhost": lease.queue.vhost.name,
        "state": lease.state if lease.count else "empty",
        "count": lease.count,
        "bytes": lease.bytes,
        "created_ms": lease.created_ms,
        "expires_ms": lease.expires_ms or None,
    }


def list_of_queues(vhost: VirtualHost, is_listed: Callable[[Queue], bool]) -> Feed:
    """Names and types, some thousands in a message; each message takes some milliseconds at most."""
    queues = iter(list(vhost.queues.values()))

    def feed() -> list[Message] | int:
        share = Share()
        found: list[dict[str, object]] = []
        for count, queue in enumerate(queues, 1):
            if not queue.deleted and is_listed(queue):
                kind = queue.arguments.get("x-queue-type", "classic")
                found.append({"name": queue.name, "type": kind})
            if count % CLOCK_INTERVAL_COUNT == 0 and share.is_over():
                return [description_message("", {"queues": found})]
        return [description_message("", {"queues": found})] if found else []

    return feed


def list_of_bindings(queue: Queue) -> Feed:
    """Of a queue, in the same way."""
    bindings = iter(list(queue.vhost.queue_bindings.get(queue, ())))

    def feed() -> list[Message] | int:
        share = Share()
        found: list[dict[str, object]] = []
        for count, binding in enumerate(bindings, 1):
            found.append(
                {
                    "exchange": binding.source.name,
                    "routing_key": binding.routing_key,
                    "arguments": sorted(binding.arguments),
                }
            )
            if count % CLOCK_INTERVAL_COUNT == 0 and share.is_over():
                break
        return [description_message(queue.name, {"bindings": found})] if found else []

    return feed


def description_message(name: str, facts: dict[str, object]) -> Message:
    properties = Properties(content_type="application/json", type="description")
    return composed("", name, properties, json.dumps(facts).encode())
