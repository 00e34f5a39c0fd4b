"""Publishing without an AMQP channel (HTTP API): messages made from values, routed like any other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from embermq.broker.delayed.headers import due_ms, with_delay_spent
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import PERSISTENT, composed
from embermq.broker.queue.arguments import TTL_MS_MAX
from embermq.broker.security.user import User
from embermq.errors import PreconditionFailed
from embermq.wire.properties import Properties

OCTET_MAX = 255
TIMESTAMP_MAX = 2**63 - 1
PROPERTY_NAMES: tuple[str, ...] = Properties.__slots__
NUMBERS = {"delivery_mode": OCTET_MAX, "priority": OCTET_MAX, "timestamp": TIMESTAMP_MAX}


def compose(
    exchange: str, routing_key: str, values: Mapping[str, object], body: bytes, user: User
) -> Message:
    """A message out of its parts. Unknown properties are ignored, as RabbitMQ's API does."""
    properties = Properties()
    values = {**values, "headers": without_blind_copies(values.get("headers"))}
    for name in PROPERTY_NAMES:
        value = values.get(name)
        if value is not None:
            setattr(properties, name, checked(name, value))
    if properties.user_id not in (None, user.name):
        raise PreconditionFailed(
            f"user_id property set to '{properties.user_id}' but authenticated user was '{user.name}'"
        )
    try:
        return composed(exchange, routing_key, properties, body)
    except (ValueError, TypeError) as error:
        raise PreconditionFailed(f"invalid message: {error}") from None


def checked(name: str, value: object) -> object:
    if name == "headers":
        if isinstance(value, dict):
            return value
    elif name in NUMBERS:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBERS[name]:
            if name != "delivery_mode" or value in (1, PERSISTENT):
                return value
    elif isinstance(value, str):
        if name != "expiration" or re.fullmatch("[0-9]{1,12}", value) and int(value) <= TTL_MS_MAX:
            return value
    raise PreconditionFailed(f"invalid message: property {name} cannot be {value!r}")


def without_blind_copies(headers: object) -> object:
    """BCC is for the broker alone."""
    if isinstance(headers, dict) and "BCC" in headers:
        return {name: value for name, value in headers.items() if name != "BCC"}
    return headers


def copy_keys(headers: object) -> list[str]:
    """Further routing keys, which RabbitMQ's senders write into the headers CC and BCC."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = headers.get(name, []) if isinstance(headers, dict) else []
        if not isinstance(value, list):
            raise PreconditionFailed(f"invalid message: the header {name} is no list")
        keys += [key for key in value if isinstance(key, str)]
    return keys


def publish(exchange: Exchange, message: Message, more_keys: Iterable[str] = ()) -> tuple[int, int]:
    """Put it into the queues that it is for: how many these are, and how many of them refused it."""
    exchange.vhost.turn.refresh()
    due = due_ms(message.properties.headers or {}, exchange.vhost.turn.now_ms)
    if due and (exchange.name or message.routing_key in exchange.vhost.queues):
        exchange.vhost.delays.publish(with_delay_spent(message), due, tuple(more_keys))
        return 1, 0
    queues, _ = exchange.resolve(message.routing_key, message, more_keys)
    exchange.count_one(len(queues))
    if exchange.vhost.trace is not None:
        exchange.vhost.trace.published(message, queues, None)
    refusals = sum(queue.append(message) != 0 for queue in queues)
    return len(queues), refusals
