"""The few AMQP frames a benchmark sends, encoded by hand.

The benchmark shares no code with the broker it measures: a mistake in `embermq.wire` must not cancel itself
out here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

CHANNEL = 1
FRAME_END = b"\xce"
BODY_BYTES_MIN = 16
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


def short(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def table(fields: Mapping[str, str | int]) -> bytes:
    """A field table of texts and 64-bit numbers."""
    encoded = b""
    for name, value in fields.items():
        text = isinstance(value, str)
        encoded += short(name) + (
            b"S" + long(str(value).encode()) if text else struct.pack(">cq", b"l", value)
        )
    return long(encoded)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = CHANNEL) -> bytes:
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def publication(
    exchange: str,
    routing_key: str,
    body_bytes: int,
    *,
    persistent: bool,
    headers: Mapping[str, str | int] | None = None,
    properties: bytes = b"",
) -> tuple[bytes, int]:
    """One message as three frames, and where in them the body begins. `properties` are taken as they are."""
    assert body_bytes >= BODY_BYTES_MIN, "the load generator writes 16 bytes into every body"
    publish = method(60, 40, b"\x00\x00" + short(exchange) + short(routing_key) + b"\x00")
    if not properties:
        flags = (0x2000 if headers else 0) | (0x1000 if persistent else 0)
        properties = struct.pack(">H", flags) + (table(headers) if headers else b"")
        properties += b"\x02" if persistent else b""
    header = frame(2, CHANNEL, struct.pack(">HHQ", 60, 0, body_bytes) + properties)
    body = frame(3, CHANNEL, bytes(body_bytes))
    return publish + header + body, len(publish) + len(header) + 7


def consumer_tag(slot: int) -> str:
    """The load generator reads the number of the consumer back from its tag."""
    return f"{slot:06d}"


def consume(
    queue: str, slot: int, *, no_ack: bool, arguments: Mapping[str, str | int] | None = None
) -> bytes:
    flags = b"\x02" if no_ack else b"\x00"
    names = short(queue) + short(consumer_tag(slot))
    return method(60, 20, b"\x00\x00" + names + flags + table(arguments or {}))


def deliver(slot: int, exchange: str, routing_key: str) -> bytes:
    """A broker's frame, for the echo that measures the generator itself."""
    place = short(exchange) + short(routing_key)
    return method(60, 60, short(consumer_tag(slot)) + struct.pack(">QB", 0, 0) + place)
