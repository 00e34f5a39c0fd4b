"""A message as it stands in the record of a log, behind what the store keeps itself:

0  4  header size, little-endian
4  1  priority
5     exchange (short string), routing key (short string), content header, body
"""

from __future__ import annotations

import struct

from embermq.broker.message.message import Message, expiration_ms
from embermq.store.log.peek import Glimpse
from embermq.store.log.record import PERSISTENT

META = struct.Struct("<IB")


def record_parts(message: Message) -> tuple[bytes, bytes, bytes]:
    """A message as the payload of a record."""
    return META.pack(message.header_size, message.priority), message.names, message.content


def body_size(seen: Glimpse) -> int:
    """Of a message whose record may not have been read to its end."""
    payload = seen.payload
    key_at = 6 + payload[5]
    content_at = key_at + 1 + payload[key_at]
    header_size: int = META.unpack_from(payload, 0)[0]
    return seen.payload_size - content_at - header_size


def message_of(payload: bytes, flags: int) -> Message:
    """A message out of its record."""
    header_size, priority = META.unpack_from(payload, 0)
    key_at = 6 + payload[5]
    content_at = key_at + 1 + payload[key_at]
    content = payload[content_at:]
    message = Message(payload[5:content_at], content, header_size, flags & PERSISTENT != 0, priority, 0)
    message.ttl_ms = expiration_ms(content, header_size)
    return message
