"""Bytes and values of AMQP frames for the raw client: hand-made where pamqp would refuse."""

import itertools
import os
import struct
import time
from dataclasses import dataclass
from typing import Any

from pamqp import base
from pamqp import commands as spec

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = FRAME_TYPES = 1, 2, 3, 8
FRAME_END = 0xCE
# How long a broker may take to answer before a test fails: generous, because the machine may be busy.
REPLY_SECONDS_MAX = 60.0
# How long to listen before believing that a broker stays silent.
SILENCE_SECONDS = 0.3

_serial = itertools.count(1)


def unique(prefix: str = "conf") -> str:
    """A name that no other test, run or process uses."""
    return f"{prefix}.{os.getpid()}.{time.time_ns() & 0xFFFFFF:x}.{next(_serial)}"


def raw_frame(
    kind: int, channel: int, payload: bytes, end: int = FRAME_END, size: int | None = None
) -> bytes:
    """A frame with any type, any frame-end and, if wanted, a size field that lies."""
    return struct.pack(">BHI", kind, channel, len(payload) if size is None else size) + payload + bytes([end])


def method_payload(class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return struct.pack(">HH", class_id, method_id) + arguments


def short_string(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return bytes([len(data)]) + data


def long_string(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(data)) + data


def table(*pairs: tuple[bytes | str, bytes]) -> bytes:
    """A field table out of (name, letter and encoded value) pairs; repeats and nonsense allowed."""
    return long_string(b"".join(short_string(name) + value for name, value in pairs))


@dataclass
class Frame:
    """One frame as it came: `value` is pamqp's object, `payload` the bytes between size and frame-end."""

    kind: int
    channel: int
    value: Any
    payload: bytes = b""


@dataclass
class Message:
    """A content with the method that carried it (basic.deliver, basic.get-ok or basic.return)."""

    method: Any
    properties: spec.Basic.Properties
    body: bytes
    frames: list[Frame]

    @property
    def delivery_tag(self) -> int:
        return int(self.method.delivery_tag)

    @property
    def redelivered(self) -> bool:
        return bool(self.method.redelivered)


class Closed(AssertionError):
    """The socket ended while the test was waiting for a frame."""


class Silence(AssertionError):
    """No frame came in time."""


class Unexpected(AssertionError):
    """Another frame came than the one a test waits for."""


def check_close(close: Any, code: int, text: str | None, method: type[base.Frame] | None) -> None:
    assert close.reply_code == code, f"closed with {close.reply_code} {close.reply_text!r}, not {code}"
    if text is not None:
        assert close.reply_text == text, f"closed with {close.reply_text!r}, not {text!r}"
    if method is not None:
        blamed = (close.class_id << 16) | close.method_id
        assert blamed == method.index, f"close blames {close.class_id}.{close.method_id}, not {method.name}"


def describe(frame: Frame) -> str:
    """A frame in words, for the message of a failed test."""
    value = frame.value
    if isinstance(value, base.Frame):
        fields = ", ".join(f"{name}={getattr(value, name)!r}" for name in value.attributes())
        return f"{value.name}({fields}) on channel {frame.channel}"
    return f"{type(value).__name__} on channel {frame.channel} with {frame.payload[:40]!r}"
