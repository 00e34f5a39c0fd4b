"""Rewriting a message with other headers, properties or names: the rare case in which it is encoded anew.

Header values keep the types they came with, so that they compare equal to the original.
"""

from __future__ import annotations

from embermq.broker.message.message import FLAGS_AT, Message, headers_at
from embermq.wire.primitive import encode_shortstr
from embermq.wire.properties import FLAG_HEADERS, Properties
from embermq.wire.table import decode_typed, encode_typed
from embermq.wire.table_writer import TypedField

DELIVERY_COUNTS = ("x-delivery-count", "x-acquired-count")


def typed_headers(message: Message) -> list[TypedField]:
    """(name, letter, value) of each header, in order."""
    at = headers_at(message.content)
    if at == 0:
        return []
    fields, _ = decode_typed(message.content, at, message.header_size)
    return fields


def names_of(exchange: str, routing_key: str) -> bytes:
    """As a message carries them."""
    return encode_shortstr(exchange) + encode_shortstr(routing_key)


def rewritten(
    message: Message, names: bytes, properties: Properties, headers: list[TypedField] | None
) -> Message:
    """The same body under other names, properties and headers (those in `properties` are not looked at)."""
    before = Properties(content_type=properties.content_type, content_encoding=properties.content_encoding)
    properties.content_type = properties.content_encoding = properties.headers = None
    first, second = before.encode(), properties.encode()
    flags = int.from_bytes(first[:2], "big") | int.from_bytes(second[:2], "big")
    table = b""
    if headers is not None:
        flags |= FLAG_HEADERS
        table = encode_typed(headers)
    header = message.content[:FLAGS_AT] + flags.to_bytes(2, "big") + first[2:] + table + second[2:]
    new = Message(
        names, header + message.body, len(header), message.persistent, message.priority, message.publisher
    )
    new.ttl_ms = message.ttl_ms
    return new


def with_header(message: Message, header: TypedField) -> Message:
    """The same message with one header more, or another value of it."""
    headers = [field for field in typed_headers(message) if field[0] != header[0]]
    return rewritten(message, message.names, message.properties, [*headers, header])


def with_delivery_count(message: Message, returns: int) -> Message:
    """The same message with the number of its deliveries that came to nothing.

    RabbitMQ (4.3) counts beside it how often a consumer got the message; here these are the same.
    """
    headers = [field for field in typed_headers(message) if field[0] not in DELIVERY_COUNTS]
    headers += [(name, "l", returns) for name in DELIVERY_COUNTS]
    return rewritten(message, message.names, message.properties, headers)


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
