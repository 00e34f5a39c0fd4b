"""The asyncio protocol of one AMQP connection: its socket, its heartbeats, its end."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.reader import Reader
from embermq.amqp.connection.state import CLOSED, OPEN, Pause
from embermq.deadline import Deadline
from embermq.errors import ConnectionForced
from embermq.net.sliced_transport import SlicedTransport

if TYPE_CHECKING:
    from embermq.net.login_admission import Place
    from embermq.net.proxy_protocol import Peer
    from embermq.net.server import Server

WRITE_BUFFER_HIGH_BYTES = 1024 * 1024
WRITE_BUFFER_LOW_BYTES = 256 * 1024
LINGER_S_MAX = 10.0
UNSENT_BYTES_MAX = 16 * 1024 * 1024  # past this a peer that does not read is not read from
TAKES_NOTHING = "%s: TCP timeout: the client has taken nothing of what was sent to it, or is unreachable"
TCP_INFO_BYTES, ACKED_BYTES_AT = 128, 120  # struct tcp_info of Linux, tcpi_bytes_acked


def taken_bytes(transport: asyncio.Transport) -> int:
    """What the peer's system has acknowledged so far; where ours does not tell, what still waits here."""
    sock = transport.get_extra_info("socket")
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        return int.from_bytes(info[ACKED_BYTES_AT:TCP_INFO_BYTES], sys.byteorder)
    except (OSError, AttributeError):
        return transport.get_write_buffer_size()


class Gone:
    """A closed socket, for what may still call it: a connection, a protocol.

    Protocol, connection and transport know each other, and garbage is collected rarely: dead ones would
    wait for that by the thousand. So this stands in when one is lost, and they end at once.
    """

    def send(self, data: bytes) -> None:
        pass

    def send_pieces(self, pieces: list[memoryview]) -> None:
        pass

    def close(self, after_s: float = 0.0) -> None:
        pass

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        pass

    def heartbeat_negotiated(self, interval_s: int) -> None:
        pass

    def is_closing(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None


GONE = Gone()


class AMQPProtocol(asyncio.BufferedProtocol):
    """Owns the socket of an `amqp.Connection`; knows no AMQP."""

    transport: asyncio.Transport
    connection: Connection
    reader: Reader

    def __init__(self, server: Server, peer: Peer | None = None, place: Place | None = None) -> None:
        self.server = server
        self.peer = peer  # as a proxy told it
        self.place = place  # among those that log in, until the client has logged in
        self.sliced: SlicedTransport | None = None  # with TLS: the transport
        self.log_in_until = 0.0
        self.heard_at = 0.0
        self.spoke_at = 0.0
        self.heartbeat_s = 0
        self.heard = self.spoke = True  # since the last tick
        self.closing = False
        self.linger: Deadline | None = None  # for the peer to close its half
        self.taken_bytes = -1  # by the peer's system, when that was last seen to change
        self.taken_at = 0.0

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)
        if transport.get_extra_info("sslcontext") is not None:
            self.sliced = SlicedTransport(self.transport)
            self.transport = cast(asyncio.Transport, self.sliced)
        self.connection = self.server.welcome(self)
        self.reader = Reader(self.connection, self.server.read_buffer)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = True
        self.reader.buffer_updated(nbytes)
        self.after_feed()

    def after_feed(self) -> None:
        connection, queue = self.connection, self.connection.pressed_queue
        if queue is not None:
            connection.pressed_queue = None
            # One that consumes as well is read from: its acknowledgements are what the queue waits for.
            if queue.is_pressed() and not connection.has_consumers:
                self.server.throttle.hold(connection, queue)
        if not connection.writable and self.transport.get_write_buffer_size() >= UNSENT_BYTES_MAX:
            connection.pause(Pause.OUTPUT)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        if self.connection.state == OPEN:
            text = "%s: client unexpectedly closed TCP connection"
            if isinstance(exc, OSError) and exc.errno == errno.ETIMEDOUT:
                text = TAKES_NOTHING
            self.server.log.warning(text, self.connection.name, extra=self.connection.log_extra())
        self.connection.lost()
        if self.linger is not None:
            self.linger.cancel()
            self.linger = None  # it refers back to this
        self.server.connection_lost(self, exc)
        self.connection.transport = GONE
        self.transport = cast(asyncio.Transport, GONE)
        self.sliced = None

    def pause_writing(self) -> None:
        if self.sliced is not None:
            self.sliced.pause()
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        if self.sliced is not None and not self.sliced.resume():
            return
        self.connection.resume_writing()

    # -- the connection calls these

    def send(self, data: bytes) -> None:
        if not self.closing and not self.transport.is_closing():
            self.spoke = True
            self.transport.write(data)

    def send_pieces(self, pieces: list[memoryview]) -> None:
        if not self.closing and not self.transport.is_closing():
            self.spoke = True
            self.transport.writelines(pieces)

    def pause_reading(self) -> None:
        if not self.closing:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.server.loop.call_soon(self.read_on)

    def close(self, after_s: float = 0.0) -> None:
        if after_s:
            self.server.loop.call_later(after_s, self.shut)
        else:
            self.server.after_turn(self.shut)

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        if after_s:
            self.server.loop.call_later(after_s, action)
        else:
            self.server.loop.call_soon(action)

    def heartbeat_negotiated(self, interval_s: int) -> None:
        self.leave_lobby()
        self.reader.set_share(len(self.server.read_buffer))
        self.heartbeat_s = interval_s
        self.heard_at = self.spoke_at = self.server.loop.time()

    # -- the server calls these

    def leave_lobby(self) -> None:
        if self.place is not None:
            self.place.leave()
            self.place = None

    def read_on(self) -> None:
        """No reason to pause is left: work through what was left unread, then read on."""
        if self.connection.pauses or self.transport.is_closing():
            return
        if not self.closing:
            self.reader.feed_unread()
            self.after_feed()
        if not self.connection.pauses:
            self.transport.resume_reading()

    def shut(self) -> None:
        """Nothing more will be said; then it is the other side's turn to go.

        A socket that is closed while the peer still talks is reset, and takes our last words with it. So only
        our half of it is shut, and what comes in is read and forgotten until the peer has gone, too.
        """
        if self.closing:
            return
        self.closing = True
        if self.transport.is_closing():
            return
        try:
            if self.transport.can_write_eof():
                self.transport.write_eof()
                self.transport.resume_reading()
            else:  # TLS
                self.transport.close()
        except RuntimeError:  # uvloop's: one that broke is closed a moment before `is_closing` says so
            return
        self.linger = Deadline(self.server.loop.call_later, self.abandon)
        self.linger.set(LINGER_S_MAX)

    def abandon(self) -> None:
        """The peer has had long enough to read the last frames and to close its half."""
        self.transport.abort()

    def tick(self, now: float) -> None:
        """Once in a while: is the peer alive, and does it know that we are?"""
        if self.heard or self.connection.pauses:  # nothing is heard where nothing is read
            self.heard = False
            self.heard_at = now
        if self.spoke:
            self.spoke = False
            self.spoke_at = now
        if self.takes_nothing(now):
            self.server.log.warning(TAKES_NOTHING, self.connection.name, extra=self.connection.log_extra())
            self.connection.lost()
            self.transport.abort()
            return
        if not self.heartbeat_s or self.connection.state == CLOSED:
            return
        if now - self.heard_at > 2 * self.heartbeat_s:
            text = "%s: missed heartbeats from client, timeout: %ss"
            extra = self.connection.log_extra()
            self.server.log.warning(text, self.connection.name, self.heartbeat_s, extra=extra)
            self.transport.abort()
        elif now - self.spoke_at >= self.heartbeat_s / 2:
            self.connection.put_heartbeat()

    def takes_nothing(self, now: float) -> bool:
        """Has the peer taken nothing for too long of what waits for it?

        The system asks the same (TCP_USER_TIMEOUT), but not of a peer that keeps sending, heartbeats perhaps.
        """
        if self.connection.writable or not self.server.take_s:
            self.taken_bytes = -1
            return False
        taken = taken_bytes(self.transport)
        if taken != self.taken_bytes:
            self.taken_bytes, self.taken_at = taken, now
        return now - self.taken_at > self.server.take_s

    def force_close(self, reason: str) -> None:
        if self.connection.state == OPEN:
            self.connection.close(
                ConnectionForced(f"broker forced connection closure with reason '{reason}'"), blame=0
            )
        else:
            self.shut()
