"""What an event tells of the thing it is about: RabbitMQ's names, with values that a program can use.

Where RabbitMQ prints Erlang terms (arguments, addresses), these are tables and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.access import Permission, TopicPermission
    from embermq.broker.binding import Binding
    from embermq.broker.consumer import Consumer
    from embermq.broker.events import Properties
    from embermq.broker.exchange import Exchange
    from embermq.broker.queue import Queue
    from embermq.broker.vhost import VirtualHost


def named(thing: Queue | Exchange) -> Properties:
    return {"vhost": thing.vhost.name, "name": thing.name}


def queue_deleted(queue: Queue) -> Properties:
    return {**named(queue), "exclusive": queue.exclusive}


def queue_created(queue: Queue) -> Properties:
    return {
        **named(queue),
        "durable": bool(queue.durable),
        "auto_delete": bool(queue.auto_delete),
        "exclusive": queue.exclusive,
        "arguments": queue.arguments,
    }


def exchange_created(exchange: Exchange) -> Properties:
    return {
        **named(exchange),
        "type": exchange.type,
        "durable": bool(exchange.durable),
        "auto_delete": bool(exchange.auto_delete),
        "internal": bool(exchange.internal),
        "arguments": exchange.arguments,
    }


def binding_ends(binding: Binding) -> Properties:
    return {
        "vhost": binding.source.vhost.name,
        "source_name": binding.source.name,
        "source_kind": "exchange",
        "destination_name": binding.destination.name,
        "destination_kind": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
    }


def consumer_created(consumer: Consumer, channel: str, prefetch_count: int) -> Properties:
    return {
        **consumer_deleted(consumer, channel),
        "exclusive": bool(consumer.exclusive),
        "ack_required": not consumer.no_ack,
        "prefetch_count": prefetch_count,
        "arguments": consumer.arguments,
    }


def consumer_deleted(consumer: Consumer, channel: str) -> Properties:
    return {
        "consumer_tag": consumer.tag,
        "channel": channel,
        "vhost": consumer.queue.vhost.name,
        "queue": consumer.queue.name,
    }


def vhost_created(vhost: VirtualHost) -> Properties:
    return {"name": vhost.name, "description": vhost.description, "tags": list(vhost.tags)}


def name_only(name: str) -> Properties:
    return {"name": name}


def user_tags(name: str, tags: frozenset[str]) -> Properties:
    return {"name": name, "tags": sorted(tags)}


def permission_created(user: str, vhost: str, permission: Permission) -> Properties:
    return {**permission_deleted(user, vhost), **permission.patterns}


def permission_deleted(user: str, vhost: str) -> Properties:
    return {"user": user, "vhost": vhost}


def topic_permission_created(user: str, vhost: str, exchange: str, permission: TopicPermission) -> Properties:
    return {**topic_permission_deleted(user, vhost, exchange), **permission.patterns}


def topic_permission_deleted(user: str, vhost: str, exchange: str) -> Properties:
    return {**permission_deleted(user, vhost), "exchange": exchange}


def limits_set(name: str, limits: dict[str, int]) -> Properties:
    return {"name": name, "limits": limits}


def messages_dropped(vhost: str, queue: str, count: int) -> Properties:
    return {"vhost": vhost, "queue": queue, "reason": "delivery_limit", "count": count}


def alarm(source: str) -> Properties:
    return {"source": source}
