"""Events of the broker and their listeners: the event exchange, an audit log, a test.

An event has a key in RabbitMQ's words ("queue.created", "user.authentication.failure"), the moment, the user
that caused it, and properties. Code that causes one calls

    events.emit("queue.created", queue_created, queue)

and is done: the properties are put together by calling `queue_created(queue)`, and only if there is a
listener. Listeners are called at once and in order, after the fact; one that fails does not affect the
others.
"""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from embermq.broker.exchange.binding import Binding
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.consumer import Consumer
    from embermq.broker.queue.queue import Queue
    from embermq.broker.security.user import Permission, TopicPermission
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.events")

INTERNAL_USER = "rmq-internal"  # RabbitMQ's name for the broker itself

Properties = Mapping[str, object]
Result = TypeVar("Result")


class Event(NamedTuple):
    key: str
    timestamp_ms: int
    actor: str  # the user on whose behalf it happened
    properties: Properties


Listener = Callable[[Event], None]


class Events:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.listeners: list[Listener] = []
        self.actor = INTERNAL_USER

    def listen(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    @contextmanager
    def acting(self, user: str) -> Iterator[None]:
        """What happens inside is this user's doing."""
        before, self.actor = self.actor, user
        try:
            yield
        finally:
            self.actor = before

    def acting_in_pieces(self, pieces: Pieces) -> Pieces:
        """Each of the pieces is the doing of the user that acts now."""
        actor = self.actor
        while True:
            with self.acting(actor):
                try:
                    wait = next(pieces)
                except StopIteration:
                    return
            yield wait

    @types.coroutine
    def acting_throughout(self, user: str, work: Coroutine[Any, Any, Result]) -> Generator[Any, None, Result]:
        """The same for what waits in between, while others act."""
        failure: BaseException | None = None
        while True:
            with self.acting(user):
                try:
                    awaited = work.send(None) if failure is None else work.throw(failure)
                except StopIteration as end:
                    result: Result = end.value
                    return result
            failure = None
            try:
                yield awaited
            except BaseException as error:  # the work's to deal with: cancelled, for one
                failure = error

    def emit(self, key: str, describe: Callable[..., Properties], *subject: object) -> None:
        if not self.listeners:
            return
        event = Event(key, int(self.clock() * 1000), self.actor, describe(*subject))
        for listener in list(self.listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a fault of ours in a listener to %s", key)


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
