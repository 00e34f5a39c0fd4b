"""A connection to a broker that hides nothing: frames out, methods and whole contents in."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from tools.differ.codec import METHODS, decode_header, decode_method, encode_header, encode_method
from tools.differ.fields import Table, readable

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = b"\xce"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_MAX = 131072
ANSWER_SECONDS_MAX = 20.0
CLIENT: Table = {
    "capabilities": {
        "publisher_confirms": True,
        "consumer_cancel_notify": True,
        "basic.nack": True,
        "exchange_exchange_bindings": True,
        "connection.blocked": True,
        "authentication_failure_close": True,
    }
}


class Gone(Exception):
    """The broker has closed the socket."""


class Seen:
    """One thing that came: a method, with its content where it has one."""

    __slots__ = ("body", "channel", "fields", "name", "properties")

    def __init__(self, channel: int, name: str, fields: Table) -> None:
        self.channel, self.name, self.fields = channel, name, fields
        self.properties: Table | None = None
        self.body = ""

    def told(self) -> list[Any]:
        told: list[Any] = [self.name, self.fields]
        return told if self.properties is None else [*told, self.properties, self.body]


class Link:
    """An open connection; `vhost` must exist."""

    def __init__(self, port: int, vhost: str, user: str = "guest", password: str = "guest") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._halves: dict[int, tuple[Seen, int, bytearray]] = {}
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect("connection.start")
        login: Table = {
            "client-properties": CLIENT,
            "mechanism": "PLAIN",
            "response": f"\0{user}\0{password}",
            "locale": "en_US",
        }
        self.send(0, "connection.start-ok", login)
        self.expect("connection.tune")
        self.send(0, "connection.tune-ok", {"channel-max": 2047, "frame-max": FRAME_MAX})
        self.send(0, "connection.open", {"virtual-host": vhost})
        self.expect("connection.open-ok")

    def expect(self, name: str) -> Seen:
        seen = self.read()
        assert seen is not None and seen.name == name, (name, seen and seen.told())
        return seen

    def send(
        self,
        channel: int,
        name: str,
        fields: Table | None = None,
        properties: Table | None = None,
        body: bytes = b"",
    ) -> None:
        frames = frame(METHOD, channel, encode_method(name, fields or {}))
        if METHODS[name].content:
            frames += frame(HEADER, channel, encode_header(len(body), properties or {}))
            for start in range(0, len(body), FRAME_MAX - 8):
                frames += frame(BODY, channel, body[start : start + FRAME_MAX - 8])
        self.send_bytes(frames)

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def read(self, seconds: float = ANSWER_SECONDS_MAX) -> Seen | None:
        """What comes next; None when nothing does."""
        deadline = time.monotonic() + seconds
        while True:
            whole = self._take_frame()
            if whole is None:
                self.socket.settimeout(max(0.001, deadline - time.monotonic()))
                try:
                    piece = self.socket.recv(1 << 16)
                except TimeoutError:
                    return None
                except OSError as error:
                    raise Gone(str(error)) from error
                finally:
                    self.socket.settimeout(ANSWER_SECONDS_MAX)
                if not piece:
                    raise Gone("end of stream")
                self._received += piece
                continue
            seen = self._assemble(*whole)
            if seen is not None:
                return seen

    def _take_frame(self) -> tuple[int, int, bytes] | None:
        if len(self._received) < 7:
            return None
        kind, channel, size = struct.unpack_from(">BHI", self._received)
        if len(self._received) < size + 8:
            return None
        payload = bytes(self._received[7 : 7 + size])
        assert self._received[7 + size : 8 + size] == FRAME_END, self._received
        del self._received[: size + 8]
        return kind, channel, payload

    def _assemble(self, kind: int, channel: int, payload: bytes) -> Seen | None:
        if kind == HEARTBEAT:
            return None
        if kind == METHOD:
            name, fields = decode_method(payload)
            seen = Seen(channel, name, fields)
            if METHODS[name].content:
                self._halves[channel] = seen, -1, bytearray()
                return None
            return seen
        seen, size, body = self._halves[channel]
        if kind == HEADER:
            size, seen.properties = decode_header(payload)
            self._halves[channel] = seen, size, body
        else:
            body += payload
        if len(body) < size:
            return None
        del self._halves[channel]
        seen.body = readable(bytes(body))
        return seen

    def drop(self) -> None:
        self.socket.close()


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END
