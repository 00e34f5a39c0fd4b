"""A published message that is to be routed later: what the channel does with it now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.amqp.confirming import SOMEWHERE
from embermq.broker.due_time import with_delay_spent

if TYPE_CHECKING:
    from embermq.amqp.channel import Channel
    from embermq.amqp.special import Wishes
    from embermq.broker.exchange import Route
    from embermq.broker.message import Message

MANDATORY = 1
NOBODY = ()


def publish_later(channel: Channel, message: Message, route: Route, wishes: Wishes) -> int:
    """Let it wait; back with it, or away, where even now no queue could get it.

    A queue's own name is no address without the queue. Other exchanges may get bindings meanwhile: there only
    `mandatory` asks for a queue now.
    """
    bits = channel.publish_bits & MANDATORY
    if (bits or not message.exchange) and not has_queue(message, route, wishes):
        route.exchange.count_one(0)
        return channel.publish(message, NOBODY, bits)
    message = with_delay_spent(message)
    if channel.transaction is not None:
        channel.transaction.delayed.append((message, wishes.due_ms, wishes.keys))
        return 0
    channel.vhost.delays.publish(message, wishes.due_ms, wishes.keys)
    channel.publish(message, NOBODY, 0)  # counted, and confirmed in its turn
    if message.persistent and channel.vhost.storage is not None:
        channel.keep(SOMEWHERE)
    return 0


def has_queue(message: Message, route: Route, wishes: Wishes) -> bool:
    if route.version == route.exchange.version and not route.varies:
        return bool(route.queues)
    return bool(route.exchange.resolve(message.routing_key, message.properties, wishes.keys)[0])
