"""A message put together from its parts, by the broker itself or for somebody without an AMQP channel."""

from __future__ import annotations

from embermq.broker.message import Message
from embermq.broker.rewriting import names_of
from embermq.wire.properties import Properties

CLASS_AND_WEIGHT = b"\x00\x3c\x00\x00"
PERSISTENT = 2


def composed(exchange: str, routing_key: str, properties: Properties, body: bytes) -> Message:
    """ValueError or TypeError when the properties cannot be written."""
    header = CLASS_AND_WEIGHT + len(body).to_bytes(8, "big") + properties.encode()
    names = names_of(exchange, routing_key)
    persistent = properties.delivery_mode == PERSISTENT
    message = Message(names, header + body, len(header), persistent, properties.priority or 0, 0)
    if properties.expiration is not None:
        message.ttl_ms = int(properties.expiration)
    return message
