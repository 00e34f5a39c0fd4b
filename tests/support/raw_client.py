"""A raw AMQP 0-9-1 client for tests, benchmarks and tools: a blocking socket, one frame at a time.

It encodes and decodes with pamqp, which shares no line with our own wire code, and sends hand-made bytes
where pamqp refuses to say a thing. It does nothing on its own accord: no heartbeats, no automatic close-ok,
no reordering, so a test sees exactly what the broker sent and when.

    client = RawClient(port)
    client.handshake()
    channel = client.channel(1)
    channel.call(spec.Queue.Declare(queue="q"))         # sends, returns the declare-ok
    channel.publish(b"hello", routing_key="q")
    message = channel.get("q")                          # a Message, or None when the queue is empty
    channel.send(spec.Queue.Declare(queue="nope", passive=True))
    channel.expect_close(404, "NOT_FOUND - no queue 'nope' in vhost '/'")
"""

import socket
import struct
import time
from contextlib import suppress
from typing import Any, TypeVar

from pamqp import base, body, heartbeat
from pamqp import commands as spec
from pamqp import frame as codec
from pamqp.exceptions import UnmarshalingException

from tests.support.raw_channel import RawChannel
from tests.support.raw_frames import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_TYPES,
    PROTOCOL_HEADER,
    REPLY_SECONDS_MAX,
    SILENCE_SECONDS,
    Closed,
    Frame,
    Message,
    Silence,
    Unexpected,
    check_close,
    describe,
    long_string,
    method_payload,
    raw_frame,
    short_string,
    table,
    unique,
)

__all__ = [
    "FRAME_BODY",
    "FRAME_END",
    "FRAME_HEADER",
    "FRAME_HEARTBEAT",
    "FRAME_METHOD",
    "PROTOCOL_HEADER",
    "REPLY_SECONDS_MAX",
    "SILENCE_SECONDS",
    "Closed",
    "Frame",
    "Message",
    "RawChannel",
    "RawClient",
    "Silence",
    "Unexpected",
    "long_string",
    "method_payload",
    "raw_frame",
    "short_string",
    "spec",
    "table",
    "unique",
]

CLIENT_PROPERTIES: dict[str, Any] = {
    "product": "embermq-conformance",
    "capabilities": {
        "authentication_failure_close": True,
        "consumer_cancel_notify": True,
        "basic.nack": True,
        "publisher_confirms": True,
        "connection.blocked": True,
    },
}

Reply = TypeVar("Reply")


class RawClient:
    """One connection. `user`, `vhost`, `frame_max`, `channel_max` and `heartbeat` belong to `handshake`."""

    def __init__(
        self, port: int, host: str = "127.0.0.1", receive_buffer_bytes: int = 0, connected: Any = None
    ) -> None:
        """`connected` is a socket, or something like it, to be used as it is."""
        self.socket = connected or socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(REPLY_SECONDS_MAX)
        if connected is None:
            try:
                self.socket.connect((host, port))
            except OSError:
                self.socket.close()
                raise
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port, self.host = port, host
        self._buffer = bytearray()
        self.frame_max = 131072
        self.channel_max = 2047
        self.heartbeat = 0
        self.start: Any = None
        self.tune: Any = None

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    # -- sending ---------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, value: Any, channel: int = 0) -> None:
        """Send a pamqp method, content header, content body, heartbeat or protocol header."""
        self.send_bytes(codec.marshal(value, channel))

    def send_frame(
        self, kind: int, channel: int, payload: bytes, end: int = FRAME_END, size: int | None = None
    ) -> None:
        self.send_bytes(raw_frame(kind, channel, payload, end, size))

    def send_method(self, channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> None:
        """A method out of hand-made argument bytes."""
        self.send_frame(FRAME_METHOD, channel, method_payload(class_id, method_id, arguments))

    def send_heartbeat(self) -> None:
        self.send(heartbeat.Heartbeat())

    # -- receiving -------------------------------------------------------------------------------------------

    def read_bytes(self, size: int, seconds: float = REPLY_SECONDS_MAX) -> bytes:
        self._peek(size, time.monotonic() + seconds)
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Silence(f"nothing more came; {bytes(self._buffer)!r} is unread")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError:
            raise Silence(f"nothing more came; {bytes(self._buffer)!r} is unread") from None
        except ConnectionError as error:
            raise Closed(f"the socket broke: {error}") from None
        if not data:
            raise Closed(f"the broker closed the socket; {bytes(self._buffer)!r} is unread")
        self._buffer += data

    def _peek(self, size: int, deadline: float) -> None:
        while len(self._buffer) < size:
            self._receive(deadline)

    def has_unread(self) -> bool:
        return bool(self._buffer)

    def read_raw(self, seconds: float = REPLY_SECONDS_MAX) -> tuple[int, int, bytes]:
        """Type, channel and payload of the next frame. One that did not come completely stays unread."""
        deadline = time.monotonic() + seconds
        self._peek(7, deadline)
        kind, channel, size = struct.unpack_from(">BHI", self._buffer)
        assert kind in FRAME_TYPES, f"the broker sent a frame of type {kind}"
        assert not self.frame_max or size + 8 <= self.frame_max, (
            f"the broker sent a frame of {size + 8} bytes"
        )
        self._peek(size + 8, deadline)
        payload, end = bytes(self._buffer[7 : 7 + size]), self._buffer[7 + size]
        del self._buffer[: size + 8]
        assert end == FRAME_END, f"frame-end is {end:#x}"
        return kind, channel, payload

    def read_frame(self, seconds: float = REPLY_SECONDS_MAX) -> Frame:
        """The next frame, heartbeats included."""
        kind, channel, payload = self.read_raw(seconds)
        if kind == FRAME_HEARTBEAT:
            assert (channel, payload) == (0, b""), f"heartbeat on channel {channel} with {payload!r}"
            return Frame(kind, channel, heartbeat.Heartbeat(), payload)
        if kind == FRAME_BODY:
            return Frame(kind, channel, body.ContentBody(payload), payload)
        try:
            value = codec.unmarshal(raw_frame(kind, channel, payload))[2]
        except UnmarshalingException:
            value = None  # a method of another version of AMQP: the test looks at the payload
        return Frame(kind, channel, value, payload)

    def next_frame(self, seconds: float = REPLY_SECONDS_MAX) -> Frame:
        """The next frame that is no heartbeat."""
        deadline = time.monotonic() + seconds
        while (frame := self.read_frame(max(0.001, deadline - time.monotonic()))).kind == FRAME_HEARTBEAT:
            pass
        return frame

    def expect(
        self, method: type[Reply], channel: int = 0, seconds: float = REPLY_SECONDS_MAX, **fields: Any
    ) -> Reply:
        """The next frame must be this method on this channel, with these fields."""
        frame = self.next_frame(seconds)
        if not isinstance(frame.value, method) or frame.channel != channel:
            raise Unexpected(f"expected {method.__qualname__} on channel {channel}, got {describe(frame)}")
        for name, value in fields.items():
            got = getattr(frame.value, name)
            assert got == value, f"{method.__qualname__}.{name} is {got!r}, not {value!r}"
        return frame.value

    def expect_close(
        self, code: int, text: str | None = None, method: type[base.Frame] | None = None, answer: bool = True
    ) -> spec.Connection.Close:
        """connection.close with this reply code (and text, and blamed method); answered with close-ok."""
        close = self.expect(spec.Connection.Close)
        check_close(close, code, text, method)
        if answer:
            # After an error that broke the framing a broker need not wait for the answer.
            with suppress(ConnectionError):
                self.send(spec.Connection.CloseOk())
        return close

    def expect_close_and_eof(
        self, code: int, text: str | None = None, method: type[base.Frame] | None = None
    ) -> spec.Connection.Close:
        close = self.expect_close(code, text, method)
        self.expect_eof()
        return close

    def expect_eof(self, seconds: float = REPLY_SECONDS_MAX) -> None:
        """The broker closes the socket and sends nothing but heartbeats before."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                frame = self.read_frame(max(0.001, deadline - time.monotonic()))
                if frame.kind != FRAME_HEARTBEAT:
                    raise Unexpected(f"expected the end of the stream, got {describe(frame)}")
        except Closed:
            assert not self._buffer, f"the broker sent {bytes(self._buffer)!r} before it closed the socket"

    def expect_silence(self, seconds: float = SILENCE_SECONDS) -> None:
        """Nothing but heartbeats may come for a moment. Prefer a round trip where one proves the same."""
        try:
            frame = self.next_frame(seconds)
        except Silence:
            assert not self._buffer, f"half a frame came: {bytes(self._buffer)!r}"
            return
        raise Unexpected(f"expected silence, got {describe(frame)}")

    # -- conversations ---------------------------------------------------------------------------------------

    def open_protocol(self, protocol_header: bytes = PROTOCOL_HEADER) -> spec.Connection.Start:
        self.send_bytes(protocol_header)
        self.start = start = self.expect(spec.Connection.Start)
        return start

    def start_ok(
        self,
        user: str = "guest",
        password: str = "guest",
        mechanism: str = "PLAIN",
        response: str | None = None,
        locale: str = "en_US",
        properties: dict[str, Any] | None = None,
    ) -> None:
        """Send connection.start-ok."""
        self.send(
            spec.Connection.StartOk(
                client_properties=properties if properties is not None else CLIENT_PROPERTIES,
                mechanism=mechanism,
                response=f"\0{user}\0{password}" if response is None else response,
                locale=locale,
            )
        )

    def login(self, **start_ok: Any) -> spec.Connection.Tune:
        """Header, start, start-ok; stops after the broker's tune."""
        self.open_protocol()
        self.start_ok(**start_ok)
        self.tune = tune = self.expect(spec.Connection.Tune)
        return tune

    def tune_ok(
        self, channel_max: int | None = None, frame_max: int | None = None, heartbeat: int = 0
    ) -> None:
        self.channel_max = self.tune.channel_max if channel_max is None else channel_max
        self.frame_max = self.tune.frame_max if frame_max is None else frame_max
        self.heartbeat = heartbeat
        self.send(spec.Connection.TuneOk(self.channel_max, self.frame_max, heartbeat))

    def open_vhost(self, vhost: str = "/") -> spec.Connection.OpenOk:
        self.send(spec.Connection.Open(virtual_host=vhost))
        return self.expect(spec.Connection.OpenOk)

    def handshake(
        self,
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        **start_ok: Any,
    ) -> "RawClient":
        """Everything up to open-ok. heartbeat 0 keeps time out of tests that are not about it."""
        self.login(**start_ok)
        self.tune_ok(channel_max, frame_max, heartbeat)
        self.open_vhost(vhost)
        return self

    def channel(self, number: int = 1) -> "RawChannel":
        """Open a channel."""
        channel = RawChannel(self, number)
        channel.open()
        return channel

    def close(self, code: int = 200, text: str = "Goodbye") -> None:
        """The hand-shaken close. Content still under way is read over, as 0-9-1 demands of a closing peer."""
        self.send(spec.Connection.Close(code, text, 0, 0))
        while not isinstance(self.next_frame().value, spec.Connection.CloseOk):
            pass
        self.drop()

    def finish_sending(self) -> None:
        """Close our half of the socket; the broker may have closed its own already."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    def drop_hard(self) -> None:
        """Reset the connection (RST instead of FIN), as a crashed machine behind a router would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
