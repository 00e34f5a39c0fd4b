"""Views of the domain's objects as RabbitMQ's API shows them: one function each, a dict for JSON.

What we do not count is left out rather than shown as zero.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import quote_plus

from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.policy.policy import Policy
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import Permission, User
from embermq.broker.session_info import ChannelInfo, ConnectionInfo
from embermq.broker.vhost import VirtualHost
from embermq.http.server.context import Context
from embermq.http.stats.history import channel_values, exchange_values, queue_values
from embermq.http.stats.rates import (
    NOTHING,
    Ranges,
    channel_numbers,
    connection_numbers,
    exchange_numbers,
    queue_numbers,
    vhost_numbers,
)
from embermq.http.stats.totals import Totals
from embermq.http.views.json_values import plain

View = dict[str, Any]
RABBITMQ_HASHING = "rabbit_password_hashing_sha256"


def queue_definition(queue: Queue) -> View:
    return {
        "name": queue.name,
        "vhost": queue.vhost.name,
        "durable": bool(queue.durable),
        "auto_delete": bool(queue.auto_delete),
        "arguments": plain(queue.arguments),
    }


def queue_view(context: Context, queue: Queue, ranges: Ranges = NOTHING) -> View:
    exclusive_tag = next((consumer.tag for consumer in queue.consumers if consumer.exclusive), None)
    ready_bytes = queue.body_bytes()
    view = queue_definition(queue)
    view |= {
        "exclusive": queue.exclusive,
        "node": context.node,
        "type": queue.effective.get("x-queue-type", "classic"),
        "state": "running",
        "consumers": len(queue.consumers),
        "exclusive_consumer_tag": exclusive_tag,
        **policies_of(queue),
        # Now, not over a while: could a message be delivered as soon as it came?
        "consumer_utilisation": 1.0 if queue.consumers and not queue.ready_count else 0.0,
        "messages_delayed": queue.vhost.delays.count_to_queue(queue.name),
        "messages_paged_out": sum(level.paged_count for level in queue.levels),
        "messages_dlx": queue.vhost.dead_letters.held.count(queue),
        "message_bytes": ready_bytes + queue.unacked_bytes,
        "message_bytes_ready": ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": sum(level.ring_bytes for level in queue.levels),
        **queue_numbers(context.history, queue, queue_values(queue), ranges),
    }
    if not queue.messages_leave:
        view |= {**queue.offset_facts(), "message_bytes_persistent": bytes_on_disk(queue)}
    if view["type"] != "classic":
        view |= {"leader": context.node, "members": [context.node], "online": [context.node]}
    view |= deduplication_view(queue)
    if queue.owner is not None:
        view["owner_pid_details"] = {"name": str(getattr(queue.owner, "name", ""))}
    return view


def bytes_on_disk(queue: Queue) -> int:
    return sum(level.log.bytes_on_disk for level in queue.levels if level.log is not None)


def deduplication_view(queue: Queue) -> View:
    deduplication = queue.rules.deduplication if queue.rules is not None else None
    if deduplication is None:
        return {}
    numbers = {"ids": deduplication.count, "duplicates": deduplication.duplicate_count}
    bounds = {"window": deduplication.window_ms, "count": deduplication.count_max}
    return {"deduplication": {**numbers, **bounds}}


def brief_queue_view(context: Context, queue: Queue, with_lengths: bool) -> View:
    view = {**queue_definition(queue), "exclusive": queue.exclusive, "node": context.node}
    view["type"] = queue.effective.get("x-queue-type", "classic")
    if with_lengths:
        ready, unacked = queue.ready_count, queue.unacked_count
        view |= {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}
    return view


def exchange_definition(exchange: Exchange) -> View:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost.name,
        "type": exchange.type,
        "durable": bool(exchange.durable),
        "auto_delete": bool(exchange.auto_delete),
        "internal": bool(exchange.internal),
        "arguments": plain(exchange.arguments),
    }


def exchange_view(context: Context, exchange: Exchange, ranges: Ranges = NOTHING) -> View:
    numbers = exchange_numbers(context.history, exchange, exchange_values(exchange), ranges)
    delayed = exchange.vhost.delays.count_to_exchange(exchange.name)
    view = {**exchange_definition(exchange), **policies_of(exchange), **numbers}
    return view | {"messages_delayed": delayed}


def policies_of(thing: Queue | Exchange) -> View:
    """What policies make of a thing, and what it comes to."""
    in_force = thing.vhost.policies.of(thing)
    return {
        "policy": in_force.policy and in_force.policy.name,
        "operator_policy": in_force.operator_policy and in_force.operator_policy.name,
        "effective_policy_definition": in_force.definition,
        "effective_arguments": plain(thing.effective),
    }


def policy_view(vhost: VirtualHost, policy: Policy) -> View:
    return {"vhost": vhost.name, "name": policy.name, **policy.body}


def properties_key(routing_key: str, arguments: dict[str, object]) -> str:
    """What names a binding among those with the same ends: its key, and a digest of its arguments."""
    key = quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E") or "~"
    if not arguments:
        return key
    canonical = repr(sorted((name, repr(value)) for name, value in arguments.items()))
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).digest()
    return f"{key.removesuffix('~')}~{base64.urlsafe_b64encode(digest[:6]).decode()}"


def binding_definition(binding: Binding) -> View:
    return {
        "source": binding.source.name,
        "vhost": binding.source.vhost.name,
        "destination": binding.destination.name,
        "destination_type": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": plain(binding.arguments),
    }


def binding_view(binding: Binding) -> View:
    key = properties_key(binding.routing_key, binding.arguments)
    return {**binding_definition(binding), "properties_key": key}


def vhost_metadata(vhost: VirtualHost) -> View:
    metadata: View = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.protected:
        metadata["protected_from_deletion"] = True
    return metadata | ({"default_queue_type": vhost.default_queue_type} if vhost.default_queue_type else {})


def vhost_view(context: Context, vhost: VirtualHost, sums: Totals, ranges: Ranges = NOTHING) -> View:
    description, tags = vhost.description, list(vhost.tags)
    return {
        "name": vhost.name,
        "description": description,
        "tags": tags,
        "metadata": vhost_metadata(vhost),
        "default_queue_type": vhost.default_queue_type or "classic",
        "protected_from_deletion": vhost.protected,
        "tracing": vhost.trace is not None,
        "cluster_state": {context.node: "running"},
        "messages_delayed": vhost.delays.count,
        **vhost_numbers(context.history, vhost.name, sums.values(), ranges),
    }


def user_view(user: User) -> View:
    secret = user.secret
    hashed = base64.b64encode(secret.salt + secret.password_hash).decode("ascii")
    return {
        "name": user.name,
        # Without a password, as RabbitMQ writes it.
        "password_hash": hashed if secret.password_hash else "",
        "hashing_algorithm": secret.algorithm if secret.password_hash else RABBITMQ_HASHING,
        "tags": sorted(user.tags),
        "limits": user.limits,
    }


def permission_view(user: User, vhost: str, permission: Permission) -> View:
    return {"user": user.name, "vhost": vhost, **permission.patterns}


def connection_view(context: Context, info: ConnectionInfo, ranges: Ranges = NOTHING) -> View:
    octets = (info.received_bytes, info.sent_bytes)
    return {
        "name": info.name,
        "node": context.node,
        "user": info.user,
        "user_who_performed_action": info.user,
        "vhost": info.vhost,
        "state": info.state,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "auth_mechanism": info.mechanism,
        "ssl": info.tls,
        "host": info.host,
        "port": info.port,
        "peer_host": info.peer_host,
        "peer_port": info.peer_port,
        "channels": info.channel_count,
        "channel_max": info.channel_max,
        "frame_max": info.frame_max,
        "timeout": info.heartbeat_s,
        "connected_at": int(info.connected_at * 1000),
        **connection_numbers(context.history, info.number, octets, ranges),
        "client_properties": plain(dict(info.client_properties)),
    }


def channel_view(context: Context, info: ChannelInfo, ranges: Ranges = NOTHING) -> View:
    connection = info.connection
    key = (connection.number, info.number)
    return {
        "name": info.name,
        "node": context.node,
        "number": info.number,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
        "state": "running" if info.flow_active else "flow",
        "confirm": info.confirming,
        "transactional": info.transactional,
        "consumer_count": info.consumer_count,
        "messages_unacknowledged": info.unacked_count,
        "messages_unconfirmed": info.counts.received_confirm - info.counts.confirmed,
        "prefetch_count": info.prefetch_count,
        "global_prefetch_count": info.shared_prefetch_count,
        "connection_details": connection_details(connection),
        **channel_numbers(context.history, key, channel_values(info.counts), ranges),
    }


def connection_details(info: ConnectionInfo) -> View:
    return {"name": info.name, "peer_host": info.peer_host, "peer_port": info.peer_port}


def consumer_timeout_ms(context: Context, consumer: Consumer) -> int:
    own = consumer.queue.effective.get("x-consumer-timeout")
    return own if isinstance(own, int) else context.broker.defaults.consumer_timeout_ms


def consumer_view(context: Context, consumer: Consumer) -> View:
    view: View = {
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost.name},
        "ack_required": not consumer.no_ack,
        "exclusive": bool(consumer.exclusive),
        "active": bool(consumer.is_active),
        "activity_status": "up" if consumer.is_active else "waiting",
        "arguments": plain(consumer.arguments),
        "prefetch_count": 0,
        "messages_unacknowledged": consumer.unacked,
        "consumer_timeout": consumer_timeout_ms(context, consumer),
        "channel_details": {},
    }
    found = context.sessions.channel_of(consumer)
    if found is not None:
        channel, view["prefetch_count"] = found
        view["channel_details"] = {
            "name": channel.name,
            "number": channel.number,
            "node": context.node,
            "user": channel.connection.user,
            "connection_name": channel.connection.name,
            "peer_host": channel.connection.peer_host,
            "peer_port": channel.connection.peer_port,
        }
    return view


def default_binding(queue: Queue) -> View:
    """Every queue is bound to the default exchange by its name; no such binding is kept anywhere."""
    return {
        "source": "",
        "vhost": queue.vhost.name,
        "destination": queue.name,
        "destination_type": "queue",
        "routing_key": queue.name,
        "arguments": {},
        "properties_key": queue.name,
    }
