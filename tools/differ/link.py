"""A connection to a broker that hides nothing: frames out, methods and whole contents in."""

from __future__ import annotations

import time
from typing import Any

from tests.support.raw_client import RawClient
from tests.support.raw_frames import Closed, Silence, raw_frame
from tools.differ.codec import METHODS, decode_header, decode_method, encode_header, encode_method
from tools.differ.fields import Table, readable

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_MAX = 131072
ANSWER_SECONDS_MAX = 20.0
CAPABILITIES = {
    "publisher_confirms": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "exchange_exchange_bindings": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
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
        self.raw = RawClient(port)
        self._halves: dict[int, tuple[Seen, int, bytearray]] = {}
        self.raw.handshake(
            vhost, 2047, FRAME_MAX, user=user, password=password, properties={"capabilities": CAPABILITIES}
        )

    def send(
        self,
        channel: int,
        name: str,
        fields: Table | None = None,
        properties: Table | None = None,
        body: bytes = b"",
    ) -> None:
        frames = raw_frame(METHOD, channel, encode_method(name, fields or {}))
        if METHODS[name].content:
            frames += raw_frame(HEADER, channel, encode_header(len(body), properties or {}))
            for start in range(0, len(body), FRAME_MAX - 8):
                frames += raw_frame(BODY, channel, body[start : start + FRAME_MAX - 8])
        self.send_bytes(frames)

    def send_bytes(self, data: bytes) -> None:
        try:
            self.raw.send_bytes(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def read(self, seconds: float = ANSWER_SECONDS_MAX) -> Seen | None:
        """What comes next; None when nothing does."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                whole = self.raw.read_raw(max(0.001, deadline - time.monotonic()))
            except Silence:
                return None
            except Closed as error:
                raise Gone(str(error)) from error
            seen = self._assemble(*whole)
            if seen is not None:
                return seen

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
        self.raw.drop()
