"""The AMQP server: all connections, their read buffer, the tick for heartbeats and timeouts, shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from itertools import islice

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.state import CHECKING, OPEN
from embermq.amqp.connection.transport import Limits, Transport
from embermq.deadline import Deadline
from embermq.net.login_admission import LoginAdmission, Place
from embermq.net.protocol import AMQPProtocol
from embermq.net.proxy_protocol import Peer
from embermq.net.publisher_throttle import PublisherThrottle
from embermq.net.tls import certificate_name

READ_BUFFER_BYTES = 512 * 1024
TICK_S = 0.5
CONNECTIONS_PER_STEP = 50  # looked at before messages have their turn again
# Makes the conversation for a socket: transport, number, peer's address, name for logs, certificate's name.
Connect = Callable[[Transport, int, str, str, str], Connection]


class Server:
    log = logging.getLogger("embermq.net")

    def __init__(self, connect: Connect, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        assert limits.frame_max * 2 <= READ_BUFFER_BYTES
        self.connect = connect
        self.loop = loop
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.throttle = PublisherThrottle(loop)
        self.admission = LoginAdmission(loop.time)
        # What else is to be done every half second. True: there is more, call again in the next pass.
        self.on_tick: list[Callable[[], bool]] = []
        self.protocols: set[AMQPProtocol] = set()
        self.empty = asyncio.Event()  # there are no connections
        self.connection_count = 0
        self.handshake_s = 10.0
        self.take_s = 0.0  # in which a peer must take something of what waits for it; 0: any time
        self.certificate_kind = "common_name"  # what of a client's certificate is its name
        self.ticker = Deadline(loop.call_later, self.tick)
        self.steps: Iterator[None] | None = None  # left of the round under way

    def start(self) -> None:
        self.ticker.set(TICK_S)

    def arrived(self, peer: Peer | None, place: Place) -> AMQPProtocol:
        """What a listener calls for each connection."""
        return AMQPProtocol(self, peer, place)

    def welcome(self, protocol: AMQPProtocol) -> Connection:
        self.connection_count += 1
        peer = protocol.peer
        if peer is None:
            there = protocol.transport.get_extra_info("peername") or ("", 0)
            here = protocol.transport.get_extra_info("sockname") or ("", 0)
            peer = Peer(str(there[0]), there[1], str(here[0]), here[1])
        name = f"{peer.host}:{peer.port} -> {peer.local_host}:{peer.local_port}"
        certificate = protocol.transport.get_extra_info("peercert")
        user = certificate_name(certificate, self.certificate_kind)
        connection = self.connect(protocol, self.connection_count, peer.host, name, user)
        connection.tls = protocol.transport.get_extra_info("sslcontext") is not None
        connection.connected_at = self.loop.time()
        protocol.log_in_until = connection.connected_at + self.handshake_s
        self.protocols.add(protocol)
        self.empty.clear()
        return connection

    def connection_lost(self, protocol: AMQPProtocol, why: Exception | None) -> None:
        self.protocols.discard(protocol)
        protocol.leave_lobby()
        if not self.protocols:
            self.empty.set()
        if why is not None:
            connection = protocol.connection
            self.log.info("%s: connection lost: %s", connection.name, why, extra=connection.log_extra())

    def alarm_cleared(self) -> None:
        for protocol in list(self.protocols):
            protocol.connection.unblock()

    def after_turn(self, action: Callable[[], None]) -> None:
        """Do it when the work of this turn is done: two passes of the loop away, the turn's own between."""
        self.loop.call_soon(self.loop.call_soon, action)

    def tick(self) -> None:
        """One step of a round in a pass of the loop, so that messages wait for a step at most."""
        if self.steps is None:
            self.steps = self.round()
        try:
            next(self.steps)
            self.ticker.set(0.0)
            return
        except StopIteration:
            pass
        except Exception:  # the rest of this round is lost, but not all that come after it
            self.log.exception("a fault of ours, in what is done every half second")
        self.steps = None
        self.ticker.set(TICK_S)

    def round(self) -> Iterator[None]:
        """All that is to be done every half second, in steps."""
        for action in self.on_tick:
            yield
            try:
                while action():
                    yield
            except Exception:  # too many open files, perhaps; dead peers, which have them, must go
                self.log.exception("a fault of ours, in what is done every half second")
        ahead = iter(list(self.protocols))
        while some := list(islice(ahead, CONNECTIONS_PER_STEP)):
            yield
            now, date = self.loop.time(), time.time()
            for protocol in some:
                if protocol in self.protocols:  # it may be gone since the round began
                    self.check(protocol, now, date)

    def check(self, protocol: AMQPProtocol, now: float, date: float) -> None:
        protocol.tick(now)
        connection = protocol.connection
        if connection.expires_at <= date:
            protocol.force_close("the credentials have expired")
        if connection.state == CHECKING:
            protocol.log_in_until += TICK_S  # the client has done its part and waits for us
        elif connection.state < OPEN and now > protocol.log_in_until:
            self.log.warning("%s: handshake timeout", connection.name, extra=connection.log_extra())
            protocol.transport.abort()

    def abort(self) -> None:
        """Abort all connections."""
        self.ticker.cancel()
        for protocol in list(self.protocols):
            protocol.transport.abort()

    async def stop(self, patience_s: float, reason: str = "shutdown") -> None:
        """Close all connections, and wait a little for the clients to answer."""
        self.ticker.cancel()
        for protocol in list(self.protocols):
            try:
                protocol.force_close(reason)
            except Exception:  # the others are told all the same
                self.log.exception("a fault of ours, in closing %s", protocol.connection.name)
        if self.protocols:
            await asyncio.wait([asyncio.ensure_future(self.empty.wait())], timeout=patience_s)
        for protocol in list(self.protocols):
            protocol.transport.abort()
        await asyncio.sleep(0)
