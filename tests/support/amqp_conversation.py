"""A connection without a socket: bytes in, bytes out, turns by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.transport import Limits
from embermq.broker.broker import Broker
from embermq.broker.security.user import Permission, User
from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, content_frames, content_header, method_frame
from embermq.wire.properties import Properties
from tests.support.domain import Loop
from tests.support.stored_domain import StoredBroker

Frame = tuple[int, int, bytes]  # type, channel, payload


@cache
def guest() -> User:
    """Hashing passwords is slow on purpose: once is enough here."""
    user = User.with_password("guest", "guest", tags=frozenset({"administrator"}), loopback_only=True)
    user.permissions["/"] = Permission()
    return user


class Transport:
    """The transport of a connection: remembers what was sent and when it was told to close."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed_after_s: float | None = None
        self.heartbeat_s: int | None = None

    def send(self, data: bytes) -> None:
        self.sent += data

    def send_pieces(self, pieces: list[memoryview]) -> None:
        self.send(b"".join(pieces))

    def close(self, after_s: float = 0.0) -> None:
        if self.closed_after_s is None or after_s < self.closed_after_s:
            self.closed_after_s = after_s

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        raise NotImplementedError

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        raise NotImplementedError

    def heartbeat_negotiated(self, interval_s: int) -> None:
        self.heartbeat_s = interval_s


class Wire(Transport):
    """A client without a socket: what it says is fed to a connection, turn by turn."""

    def __init__(
        self,
        limits: Limits | None = None,
        peer_address: str = "127.0.0.1",
        stored: StoredBroker | None = None,
        beside: Wire | None = None,
    ) -> None:
        super().__init__()
        home = stored or beside
        self.loop = Loop() if home is None else home.loop
        self.broker = Broker(self.loop.turn) if home is None else home.broker
        if home is None:
            self.broker.add_vhost("/")
        if beside is None:
            self.broker.add_vhost("forbidden")
            self.broker.users.by_name["guest"] = guest()
        self.waits_s: list[float] = []
        self.limits = limits or Limits()
        self.connection = Connection(
            self.broker, self.loop.turn, self, self.limits, 1, peer_address, "test connection"
        )
        self.unfinished = b""
        self.feed_count = 0

    def resume_reading(self) -> None:
        self.loop.scheduled.append(self.read_on)

    def read_on(self) -> None:
        if not self.connection.pauses:
            self.work_off()

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        if after_s:
            self.waits_s.append(after_s)
        self.loop.scheduled.append(action)

    def feed(self, data: bytes, run: bool = True) -> None:
        """As net does it: what is left of a frame comes again with the bytes that follow; what the connection
        has left for another turn, when that has come."""
        self.unfinished += data
        if not self.connection.pauses:
            self.work_off()
        if run:
            self.loop.run()

    def work_off(self) -> None:
        self.feed_count += 1
        buf = bytearray(self.unfinished)
        used = self.connection.feed(buf, len(buf))
        assert 0 <= used <= len(buf)
        self.unfinished = bytes(buf[used:])

    def say(self, *said: methods.Method, channel: int = 0) -> list[methods.Method]:
        """Send methods; the methods that come back."""
        self.feed(b"".join(method_frame(channel, method) for method in said))
        return self.take_methods()

    def take(self) -> list[Frame]:
        taken = split_frames(bytes(self.sent))
        self.sent.clear()
        return taken

    def take_methods(self) -> list[methods.Method]:
        return [methods.decode_method(f[2], 0, len(f[2])) for f in self.take() if f[0] == 1]

    def open(self) -> Wire:
        self.feed(HANDSHAKE + method_frame(1, methods.ChannelOpen()))
        self.sent.clear()
        return self


def split_frames(data: bytes) -> list[Frame]:
    frames = []
    while data:
        size = int.from_bytes(data[3:7], "big")
        assert data[7 + size] == 0xCE
        frames.append((data[0], int.from_bytes(data[1:3], "big"), data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


def start_ok(response: bytes = b"\0guest\0guest", mechanism: str = "PLAIN", **more: object) -> methods.Method:
    properties: dict[str, object] = {"capabilities": {"authentication_failure_close": True} | more}
    return methods.ConnectionStartOk(
        client_properties=properties, mechanism=mechanism, response=response, locale="en_US"
    )


def frames_of(said: Iterable[methods.Method], channel: int = 0) -> bytes:
    return b"".join(method_frame(channel, method) for method in said)


HANDSHAKE = PROTOCOL_HEADER + frames_of(
    [
        start_ok(),
        methods.ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=30),
        methods.ConnectionOpen(virtual_host="/"),
    ]
)


def publish(
    routing_key: str,
    body: bytes,
    exchange: str = "",
    properties: Properties | None = None,
    mandatory: bool = False,
    channel: int = 1,
    frame_max: int = 4096,
) -> bytes:
    method = methods.BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    header = content_header(len(body), (properties or Properties()).encode())
    return method_frame(channel, method) + content_frames(channel, header, body, frame_max)
