"""A small blocking AMQP client that expects its broker to die at any moment.

Replies are waited for by `call`; what comes in between (deliveries, confirms) goes to the two hooks. Contents
are put together and taken apart by hand, because thousands of messages are looked at after every crash;
everything rare is pamqp's, which shares no line with our own wire code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pamqp import base
from pamqp import commands as spec
from pamqp import frame as codec

from tests.support.raw_client import RawClient
from tests.support.raw_frames import Closed, Silence, Unexpected

CHANNEL = 1
REPLY_SECONDS_MAX = 50.0  # a machine may be busy; a broker that never answers is found by this
BODY_FRAME_BYTES_MAX = 100_000
DELIVERY_MODE, PRIORITY = 0x1000, 0x0800
METHOD, HEADER, BODY = 1, 2, 3
DELIVER, GET_OK, ACK = b"\x00\x3c\x00\x3c", b"\x00\x3c\x00\x47", b"\x00\x3c\x00\x50"
RETURN = b"\x00\x3c\x00\x32"


class Lost(Exception):
    """The broker is gone, which is what it was told to be."""


class ChannelClosed(Exception):
    """The broker has refused something."""


@dataclass(frozen=True)
class Delivery:
    tag: int
    redelivered: bool
    body: bytes


class Client:
    """One connection with one channel."""

    def __init__(self, port: int, capabilities: dict[str, bool] | None = None, connected: Any = None) -> None:
        raw: RawClient | None = None
        try:
            raw = RawClient(port, connected=connected)
            raw.handshake(properties={"capabilities": capabilities or {}})
            raw.channel(CHANNEL)
        except (OSError, Closed, Silence, Unexpected) as error:
            if raw is not None:
                raw.socket.close()
            raise Lost(str(error)) from None
        self.raw, self.socket = raw, raw.socket
        self.reply_s = REPLY_SECONDS_MAX
        self.on_delivery: Callable[[Delivery], None] = lambda delivery: None
        self.on_confirm: Callable[[int, bool], None] = lambda tag, multiple: None

    def close(self) -> None:
        self.socket.close()

    # -- out

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Lost(str(error)) from None

    def send(self, *methods: base.Frame) -> None:
        self.send_bytes(b"".join(codec.marshal(method, CHANNEL) for method in methods))

    def call(self, request: base.Frame) -> Any:
        """Send a request and wait for its reply."""
        self.send(request)
        class_name, method_name = request.valid_responses[0].split(".")
        return self.wait(getattr(getattr(spec, class_name), method_name))

    def call_get(self, queue: str) -> Delivery | None:
        self.send(spec.Basic.Get(queue=queue))
        got = self.wait((Delivery, spec.Basic.GetEmpty))
        return got if isinstance(got, Delivery) else None

    # -- in

    def wait(self, kind: type | tuple[type, ...]) -> Any:
        while True:
            value = self.next()
            if isinstance(value, kind):
                return value

    def next(self) -> Any:
        """The next method, or Delivery; deliveries and confirms have been through their hooks."""
        kind, payload = self.frame()
        assert kind == METHOD, kind
        head = payload[:4]
        if head in (DELIVER, GET_OK):
            at = 5 + payload[4] if head == DELIVER else 4
            tag, redelivered = struct.unpack_from(">QB", payload, at)
            delivery = Delivery(tag, redelivered == 1, self.content())
            self.on_delivery(delivery)
            return delivery
        if head == ACK:
            tag, multiple = struct.unpack_from(">QB", payload, 4)
            self.on_confirm(tag, multiple == 1)
            return None
        method = codec.unmarshal(struct.pack(">BHI", METHOD, CHANNEL, len(payload)) + payload + b"\xce")[2]
        if head == RETURN:
            self.content()
        if isinstance(method, spec.Connection.Close):
            raise Lost(method.reply_text)
        if isinstance(method, spec.Channel.Close):
            raise ChannelClosed(method.reply_text)
        return method

    def content(self) -> bytes:
        kind, header = self.frame()
        assert kind == HEADER
        left = struct.unpack_from(">Q", header, 4)[0]
        pieces = []
        while left:
            kind, piece = self.frame()
            assert kind == BODY
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def frame(self) -> tuple[int, bytes]:
        try:
            kind, _, payload = self.raw.read_raw(self.reply_s)
        except Closed as error:
            self.socket.close()
            raise Lost(str(error)) from None
        return kind, payload


def look_at(client: Client, queues: Iterable[str]) -> dict[str, list[Delivery]]:
    """Take everything out of queues, to be given back when the client goes. Where dead letters are concerned:
    first the queues that they come from, then those that they go to; what is held does not move on."""
    contents: dict[str, list[Delivery]] = {}
    for queue in queues:
        contents[queue] = []
        while (got := client.call_get(queue)) is not None:
            contents[queue].append(got)
    return contents


def publish_frames(
    exchange: str, routing_key: str, body: bytes, persistent: bool, priority: int | None, bits: int = 0
) -> bytes:
    """basic.publish with its content, as it goes over the wire."""
    flags, values = DELIVERY_MODE, bytes([2 if persistent else 1])
    if priority is not None:
        flags, values = flags | PRIORITY, values + bytes([priority])
    names = b"".join(bytes([len(name)]) + name.encode() for name in (exchange, routing_key))
    frames = [
        wire_frame(METHOD, b"\x00\x3c\x00\x28\x00\x00" + names + bytes([bits])),
        wire_frame(HEADER, struct.pack(">HHQH", 60, 0, len(body), flags) + values),
    ]
    for at in range(0, len(body), BODY_FRAME_BYTES_MAX):
        frames.append(wire_frame(BODY, body[at : at + BODY_FRAME_BYTES_MAX]))
    return b"".join(frames)


def wire_frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, CHANNEL, len(payload)) + payload + b"\xce"
