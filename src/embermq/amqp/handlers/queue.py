"""Class queue: declare, bind, unbind, purge, delete."""

from __future__ import annotations

from embermq.amqp.channel.bulk_settle import await_unbinding
from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.publish_checks import REPLY_TO, require_topic
from embermq.amqp.channel.publish_headers import REPLY_TO_PREFIX
from embermq.amqp.connection.state import wait_while
from embermq.amqp.handlers.exchange import clean, refuse_default
from embermq.broker.exchange.binding import via_names
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.vhost import GENERATED_PREFIX, generated_name, require_access
from embermq.errors import NotFound, PreconditionFailed
from embermq.wire import methods


def queue_name(channel: Channel, name: str) -> str:
    """The name given, or that of the queue declared last on this channel."""
    if name:
        return channel.aliases.get(clean(name), clean(name))
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def serve_consumers(queue: Queue) -> None:
    """Before a queue is looked at: what its consumers wait for is theirs, also what came in this turn.

    So a message that was published before is not counted, purged, deleted or got instead of delivered.
    """
    if queue.dirty:
        queue.drain()


def on_queue_declare(channel: Channel, method: methods.QueueDeclare) -> None:
    vhost, connection = channel.vhost, channel.connection
    given = clean(method.queue)
    generated = not given and not method.passive
    name = generated_name(GENERATED_PREFIX) if generated else given
    name = vhost.defaults.templates.full_name(name, method.arguments)
    if method.passive and name == given:
        name = channel.aliases.get(given, given)
    if name == REPLY_TO or name.startswith(REPLY_TO_PREFIX):
        on_reply_queue_declare(channel, method, name)
        return
    if method.passive:
        channel.user.require_any(vhost.name, "queue", name)
        queue: Queue = vhost.queue_for(name, connection)
    else:
        channel.user.require("configure", vhost.name, "queue", name)
        wait_while(vhost.binding_removal.is_going(Queue, name))
        existing = vhost.queues.get(name)
        wait_while(existing is not None and existing.auto_delete and existing in vhost.leaving)
        combined = vhost.defaults.templates.combined(method.arguments)
        dead_letters = combined.get("x-dead-letter-exchange")
        if isinstance(dead_letters, str):
            channel.user.require("read", vhost.name, "queue", name)
            channel.user.require("write", vhost.name, "exchange", dead_letters)
        queue = vhost.declare_queue(
            name,
            owner=connection,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
            generated=generated,
        )
        if queue.owner is connection:
            connection.exclusive_queues.add(queue)
    if queue.rules is not None:
        queue.rules.used()
    channel.last_queue = queue.name
    channel.aliases.pop(given, None)
    if given and given != queue.name:
        channel.aliases[given] = queue.name  # its name in its namespace, which means it on this channel
    if not method.no_wait:
        # The answer has the name that was asked for: clients take any other for a different answer.
        told = given or queue.name
        serve_consumers(queue)
        channel.send(methods.QueueDeclareOk(told, queue.ready_count, queue.active_consumer_count))


def on_reply_queue_declare(channel: Channel, method: methods.QueueDeclare, name: str) -> None:
    """Direct replies: a responder may ask whether the requester still waits; every declaration is passive."""
    if name != REPLY_TO:
        channel.vhost.queue(name)
    if not method.no_wait:
        channel.send(methods.QueueDeclareOk(name, 0, 1))


def on_queue_bind(channel: Channel, method: methods.QueueBind) -> None:
    vhost = channel.vhost
    name = queue_name(channel, method.queue)
    refuse_default(method.exchange)
    channel.user.require("write", vhost.name, "queue", name)
    for source in (method.exchange, *via_names(method.arguments)):
        refuse_default(source)
        channel.user.require("read", vhost.name, "exchange", source)
    exchange = vhost.exchange(method.exchange)
    key = routing_key(channel, method)
    require_topic(channel, "read", exchange, key)
    queue = vhost.queue_for(name, channel.connection)
    vhost.bind(exchange, queue, key, method.arguments)
    if not method.no_wait:
        channel.send(methods.QueueBindOk())


def routing_key(channel: Channel, method: methods.QueueBind | methods.QueueUnbind) -> str:
    """Neither queue nor key given: the last queue's name is the key too (001, queue.bind)."""
    if not method.queue and not method.routing_key:
        return channel.last_queue
    return method.routing_key


def on_queue_unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    vhost = channel.vhost
    name = queue_name(channel, method.queue)
    refuse_default(method.exchange)
    channel.user.require("write", vhost.name, "queue", name)
    channel.user.require("read", vhost.name, "exchange", method.exchange)
    exchange, queue = vhost.exchanges.get(method.exchange), vhost.queues.get(name)
    key = routing_key(channel, method)
    if exchange is not None:
        require_topic(channel, "read", exchange, key)
    if exchange is not None and queue is not None:
        require_access(queue, channel.connection)
        vhost.unbind(exchange, queue, key, method.arguments)
    channel.send(methods.QueueUnbindOk())


def on_queue_purge(channel: Channel, method: methods.QueuePurge) -> None:
    name = queue_name(channel, method.queue)
    channel.user.require("read", channel.vhost.name, "queue", name)
    queue = channel.vhost.queue_for(name, channel.connection)
    serve_consumers(queue)
    count = channel.vhost.purge_queue(queue)
    channel.connection.hold_output()
    channel.connection.turn.incremental_work.when_done(queue, channel.connection.release_output)
    if not method.no_wait:
        channel.send(methods.QueuePurgeOk(count))


def on_queue_delete(channel: Channel, method: methods.QueueDelete) -> None:
    """A missing queue is no error (RabbitMQ since 3.2): it is gone, as was asked."""
    name = queue_name(channel, method.queue)
    channel.user.require("configure", channel.vhost.name, "queue", name)
    count = 0
    queue = channel.vhost.queues.get(name)
    if queue is not None:
        require_access(queue, channel.connection)
        if method.if_unused and queue.consumers:
            raise PreconditionFailed(f"{describe(queue)} in use")
        serve_consumers(queue)
        if method.if_empty and queue.ready_count:
            raise PreconditionFailed(f"{describe(queue)} not empty")
        count = queue.ready_count
    if not method.no_wait:
        # First: a client that consumes from its own queue hears of the deletion before the cancel.
        channel.send(methods.QueueDeleteOk(count))
    if queue is None:
        channel.vhost.definitions.rely("queue", channel.vhost.name, name)
    else:
        channel.vhost.delete_queue(queue)
        channel.connection.exclusive_queues.discard(queue)
        await_unbinding(channel, queue)
