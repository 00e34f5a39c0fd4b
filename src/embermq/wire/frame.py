"""Frames: type, channel, size, payload, end mark.

    0      1         3             7                  size + 7
    +------+---------+-------------+  +------------+  +-----------+
    | type | channel |    size     |  |  payload   |  | end 0xCE  |
    +------+---------+-------------+  +------------+  +-----------+
      1       2            4            size bytes         1

A message is a method frame, a header frame and as many body frames as the receiver's frame-max asks for;
frame-max counts the whole frame, so a body frame carries at most frame-max - 8 bytes.
"""

from __future__ import annotations

from struct import Struct

from embermq.wire.constants import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from embermq.wire.methods import Method

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

FRAME_PREFIX_BYTES = 7
FRAME_OVERHEAD_BYTES = 8
FRAME_END_BYTES = bytes((FRAME_END,))

_PREFIX = Struct(">BHI")
_CONTENT_HEADER = Struct(">HHQ")


def frame(type: int, channel: int, payload: bytes) -> bytes:
    return _PREFIX.pack(type, channel, len(payload)) + payload + FRAME_END_BYTES


def method_frame(channel: int, method: Method) -> bytes:
    return frame(FRAME_METHOD, channel, method.encode())


# Heartbeats travel on channel 0 and are empty (0-9-1, 4.2.7).
HEARTBEAT_FRAME = frame(FRAME_HEARTBEAT, 0, b"")


def content_header(body_size: int, properties_bytes: bytes) -> bytes:
    """The payload of a header frame: class basic, weight 0 (unused), body size, property flags and values."""
    return _CONTENT_HEADER.pack(CLASS_BASIC, 0, body_size) + properties_bytes


def content_frames(channel: int, header_payload: bytes, body: bytes, frame_max: int) -> bytes:
    """Header frame and body frames, none larger than `frame_max` (0: no limit). An empty body has no frame.

    The header cannot be cut: if it alone exceeds frame_max, that is for the caller to know.
    """
    assert frame_max == 0 or frame_max > FRAME_OVERHEAD_BYTES
    size = len(body)
    step = frame_max - FRAME_OVERHEAD_BYTES if frame_max else size
    parts = [_PREFIX.pack(FRAME_HEADER, channel, len(header_payload)), header_payload, FRAME_END_BYTES]
    for start in range(0, size, step or 1):
        piece = body[start : start + step]
        parts += (_PREFIX.pack(FRAME_BODY, channel, len(piece)), piece, FRAME_END_BYTES)
    return b"".join(parts)
