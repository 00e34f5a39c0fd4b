"""A raw client of AMQP 0-9, encoding by a table of its own (amqp_0_9_methods.txt, from the XML).

It shares no line with the wire code of the broker, and does nothing by itself.

    client = Client09(port)                              # connected and logged in
    client.open(1)
    client.call(1, "queue.declare", queue="q")           # as method frames
    client.request(1, "message.transfer", destination="", **{"routing-key": "q"}, body=(0, b"hello"))
    client.response(1)                                   # a Response
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, NamedTuple

from pamqp import decode, encode

HEADER = b"AMQP\x01\x01\x00\x09"
METHOD, CONTENT_HEADER, BODY, TRACE, REQUEST, RESPONSE = 1, 2, 3, 7, 9, 10
SECONDS_MAX = 20.0
FRAME_MAX = 131072


class Definition(NamedTuple):
    name: str
    class_id: int
    method_id: int
    fields: list[tuple[str, str]]


class Frame(NamedTuple):
    type: int
    channel: int
    payload: bytes


class Called(NamedTuple):
    """A method that came, with its fields; the numbers are those of a request or a response."""

    name: str
    fields: dict[str, Any]
    request_id: int = 0
    response_id: int = 0
    batch_offset: int = 0
    response_mark: int = 0


class Closed(AssertionError):
    """The connection ended where a frame was expected."""


def read_table() -> tuple[dict[str, Definition], dict[int, list[tuple[str, str]]]]:
    methods, properties = {}, {}
    for line in (Path(__file__).parent / "amqp_0_9_methods.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, *rest = line.split()
        fields = [tuple(field.split(":")) for field in rest[2:]]
        if name == "properties":
            properties[int(rest[1])] = fields
        else:
            methods[name] = Definition(name, int(rest[0]), int(rest[1]), fields)  # type: ignore[arg-type]
    return methods, properties  # type: ignore[return-value]


METHODS, PROPERTIES = read_table()
BY_ID = {
    (each.class_id, each.method_id): each for each in METHODS.values() if not each.name.endswith("-original")
}
FORMATS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q", "timestamp": ">Q"}


def encode_fields(fields: list[tuple[str, str]], values: dict[str, Any]) -> bytes:
    unknown = set(values) - {name for name, _ in fields}
    assert not unknown, f"no such fields: {unknown}"
    data = bytearray()
    bits: list[bool] = []

    def flush() -> None:
        for start in range(0, len(bits), 8):
            data.append(sum(bit << place for place, bit in enumerate(bits[start : start + 8])))
        bits.clear()

    for name, kind in fields:
        value = values.get(name)
        if kind == "bit":
            bits.append(bool(value))
            continue
        flush()
        data += encode_field(kind, value)
    flush()
    return bytes(data)


def encode_field(kind: str, value: Any) -> bytes:
    if kind in FORMATS:
        return struct.pack(FORMATS[kind], value or 0)
    if kind == "table":
        return encode.field_table(value or {})
    if kind == "content":
        by_reference, data = value or (0, b"")
        return bytes([by_reference]) + struct.pack(">I", len(data)) + data
    data = value.encode() if isinstance(value, str) else value or b""
    return (bytes([len(data)]) if kind == "shortstr" else struct.pack(">I", len(data))) + data


def decode_fields(fields: list[tuple[str, str]], data: bytes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    pos, bit = 0, 8
    for name, kind in fields:
        if kind == "bit":
            if bit == 8:
                pos, bit = pos + 1, 0
            values[name] = bool(data[pos - 1] >> bit & 1)
            bit += 1
            continue
        bit = 8
        if kind in FORMATS:
            (values[name],) = struct.unpack_from(FORMATS[kind], data, pos)
            pos += struct.calcsize(FORMATS[kind])
        elif kind == "table":
            used, values[name] = decode.field_table(data[pos:])
            pos += used
        elif kind == "content":
            size = int.from_bytes(data[pos + 1 : pos + 5], "big")
            values[name] = (data[pos], data[pos + 5 : pos + 5 + size])
            pos += 5 + size
        elif kind == "shortstr":
            values[name] = data[pos + 1 : pos + 1 + data[pos]].decode()
            pos += 1 + data[pos]
        else:
            size = int.from_bytes(data[pos : pos + 4], "big")
            values[name] = data[pos + 4 : pos + 4 + size]
            pos += 4 + size
    assert pos == len(data), f"{len(data) - pos} octets are left behind the fields"
    return values


def payload(name: str, **values: Any) -> bytes:
    method = METHODS[name]
    values = {key.replace("_", "-"): value for key, value in values.items()}
    head = struct.pack(">HH", method.class_id, method.method_id)
    return head + encode_fields(method.fields, values)


def called(data: bytes) -> tuple[str, dict[str, Any]]:
    method = BY_ID[struct.unpack_from(">HH", data)]
    return method.name, decode_fields(method.fields, data[4:])


class Client09:
    def __init__(self, port: int, user: str = "guest", password: str = "guest", vhost: str = "/") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self.buffer = bytearray()
        self.request_ids: dict[int, int] = {}
        self.response_ids: dict[int, int] = {}
        self.marks: dict[int, int] = {}
        self.got: dict[int, set[int]] = {}
        self.socket.sendall(HEADER)
        self.start = self.expect(0, "connection.start")
        self.send(
            0,
            "connection.start-ok",
            mechanism="PLAIN",
            response=f"\0{user}\0{password}".encode(),
            locale="en_US",
        )
        tune = self.expect(0, "connection.tune").fields
        self.send(0, "connection.tune-ok", channel_max=tune["channel-max"], frame_max=FRAME_MAX, heartbeat=0)
        self.send(0, "connection.open", virtual_host=vhost, insist=True)
        self.opened = self.expect(0, "connection.open-ok", "connection.redirect", "connection.close")

    def __enter__(self) -> Client09:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        self.socket.close()

    # -- sending

    def frame(self, type: int, channel: int, data: bytes) -> None:
        self.socket.sendall(struct.pack(">BHI", type, channel, len(data)) + data + b"\xce")

    def send(self, channel: int, name: str, **values: Any) -> None:
        self.frame(METHOD, channel, payload(name, **values))

    def request(self, channel: int, name: str, request_id: int = 0, **values: Any) -> int:
        """Send a request, the next one or one with a number of its own; its number."""
        if not request_id:
            request_id = self.request_ids[channel] = self.request_ids.get(channel, 0) + 1
        head = struct.pack(">QQ", request_id, self.marks.get(channel, 0))
        self.frame(REQUEST, channel, head + payload(name, **values))
        return request_id

    def respond(self, channel: int, request_id: int, name: str, batch_offset: int = 0, **values: Any) -> None:
        response_id = self.response_ids[channel] = self.response_ids.get(channel, 0) + 1
        head = struct.pack(">QQI", response_id, request_id, batch_offset)
        self.frame(RESPONSE, channel, head + payload(name, **values))

    def content(self, channel: int, class_id: int, body: bytes, **properties: Any) -> None:
        named = {key.replace("_", "-"): value for key, value in properties.items()}
        fields = PROPERTIES[class_id]
        flags, values = 0, b""
        for place, (name, kind) in enumerate(fields):
            if name in named:
                flags |= 1 << (15 - place)
                values += encode_field(kind, named[name])
        header = struct.pack(">HHQH", class_id, 0, len(body), flags) + values
        self.frame(CONTENT_HEADER, channel, header)
        for start in range(0, len(body), FRAME_MAX - 8):
            self.frame(BODY, channel, body[start : start + FRAME_MAX - 8])

    # -- receiving

    def next_frame(self) -> Frame:
        while len(self.buffer) < 7 or len(self.buffer) < 8 + int.from_bytes(self.buffer[3:7], "big"):
            data = self.socket.recv(1 << 20)
            if not data:
                raise Closed
            self.buffer += data
        size = int.from_bytes(self.buffer[3:7], "big")
        assert self.buffer[7 + size] == 0xCE
        found = Frame(
            self.buffer[0], int.from_bytes(self.buffer[1:3], "big"), bytes(self.buffer[7 : 7 + size])
        )
        del self.buffer[: 8 + size]
        return found

    def next(self, channel: int) -> Called:
        """The next method, request or response."""
        found = self.next_frame()
        assert found.channel == channel, found
        if found.type == METHOD:
            return Called(*called(found.payload))
        if found.type == REQUEST:
            request_id, mark = struct.unpack_from(">QQ", found.payload)
            return Called(*called(found.payload[16:]), request_id=request_id, response_mark=mark)
        assert found.type == RESPONSE, found
        response_id, request_id, batch_offset = struct.unpack_from(">QQI", found.payload)
        self.got.setdefault(channel, set()).add(response_id)
        while self.marks.get(channel, 0) + 1 in self.got[channel]:  # up to there without a gap
            self.marks[channel] = self.marks.get(channel, 0) + 1
        return Called(
            *called(found.payload[20:]),
            request_id=request_id,
            response_id=response_id,
            batch_offset=batch_offset,
        )

    def expect(self, channel: int, *names: str) -> Called:
        found = self.next(channel)
        assert found.name in names, found
        return found

    def call(self, channel: int, name: str, **values: Any) -> Called:
        """A synchronous method in a method frame, and its answer."""
        self.send(channel, name, **values)
        return self.expect(channel, f"{name}-ok")

    def ask(self, channel: int, name: str, *answers: str, **values: Any) -> Called:
        """A request and its response."""
        request_id = self.request(channel, name, **values)
        found = self.expect(channel, *(answers or (f"{name.split('.')[0]}.ok",)))
        assert found.request_id <= request_id <= found.request_id + found.batch_offset, found
        return found

    def open(self, channel: int) -> bytes:
        """Open a channel; its identity."""
        identity: bytes = self.call(channel, "channel.open").fields["channel-id"]
        return identity

    def expect_closed(self, channel: int, code: int) -> str:
        """The channel (or with 0 the connection) is closed by the broker; the reason that it gives."""
        found = self.expect(channel, "channel.close" if channel else "connection.close")
        assert found.fields["reply-code"] == code, found.fields
        self.send(channel, "channel.close-ok" if channel else "connection.close-ok")
        text: str = found.fields["reply-text"]
        return text
