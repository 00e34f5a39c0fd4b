"""Codec of a message as the payload of a log's record: the one module that knows this layout.

0  4  size of the content header, little-endian
4  1  priority
5     exchange (short string), routing key (short string), content header, body
"""

from __future__ import annotations

import struct

from embermq.broker.message.message import Message, expiration_ms
from embermq.store.log.peek import RecordPreview
from embermq.store.log.record import PERSISTENT

PAYLOAD_BYTES_MIN = 5 + 2 + 15  # two empty names, a content header

_META = struct.Struct("<IB")
pack_meta = _META.pack  # size of the content header, priority


def record_parts(message: Message) -> tuple[bytes, bytes, bytes]:
    """A message as the payload of a record."""
    return pack_meta(message.header_size, message.priority), message.names, message.content


def header_size_at(data: bytes, at: int) -> int:
    """The size of the content header, of the payload that begins there."""
    size = data[at + 3]
    size = size << 8 | data[at + 2]
    size = size << 8 | data[at + 1]
    return size << 8 | data[at]


def names_at(at: int) -> int:
    """Where exchange and routing key stand, of the payload that begins there."""
    return at + 5


def content_at(data: bytes, at: int) -> int:
    """Where the content header stands, of the payload that begins there."""
    key_at = at + 6 + data[at + 5]
    return key_at + 1 + data[key_at]


def body_size(seen: RecordPreview) -> int:
    """Of a message whose record may not have been read to its end."""
    return seen.payload_size - content_at(seen.payload, 0) - header_size_at(seen.payload, 0)


def message_of(payload: bytes, flags: int, body_bytes_max: int = -1) -> Message:
    """A message out of its record; of its body no more than so many bytes. The payload may be cut as well."""
    header_size, at = header_size_at(payload, 0), content_at(payload, 0)
    content = payload[at:] if body_bytes_max < 0 else payload[at : at + header_size + body_bytes_max]
    message = Message(payload[5:at], content, header_size, flags & PERSISTENT != 0, payload[4], 0)
    if header_size <= len(content):
        message.ttl_ms = expiration_ms(content, header_size)
    return message
