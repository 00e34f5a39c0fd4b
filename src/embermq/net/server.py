"""The listener for AMQP, the clock for heartbeats, and what all connections share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from embermq.amqp.connection import Connection
from embermq.amqp.shell import Limits, Shell
from embermq.amqp.state import OPEN
from embermq.net.pacing import Pacer
from embermq.net.protocol import AMQPProtocol

READ_BUFFER_BYTES = 512 * 1024
TICK_S = 0.5
HANDSHAKE_S_MAX = 10.0
BACKLOG = 1024


# Makes the conversation for a socket: shell, number, peer's address, name for logs.
Connect = Callable[[Shell, int, str, str], Connection]


class Server:
    log = logging.getLogger("embermq.net")

    def __init__(self, connect: Connect, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        assert limits.frame_max * 2 <= READ_BUFFER_BYTES
        self.connect = connect
        self.loop = loop
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.read_view = memoryview(self.read_buffer)
        self.pacer = Pacer(loop)
        self.blocked: set[AMQPProtocol] = set()
        self.alarm_reason: Callable[[], str] = lambda: ""
        self.on_tick: Callable[[], None] = lambda: None
        self.protocols: set[AMQPProtocol] = set()
        self.empty = asyncio.Event()  # nobody is connected
        self.connection_count = 0
        self.listener: asyncio.Server | None = None
        self.ticker: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; the port that it really is."""
        self.listener = await self.loop.create_server(lambda: AMQPProtocol(self), host, port, backlog=BACKLOG)
        self.ticker = self.loop.call_later(TICK_S, self.tick)
        actual: int = self.listener.sockets[0].getsockname()[1]
        return actual

    def welcome(self, protocol: AMQPProtocol) -> Connection:
        self.connection_count += 1
        peer = protocol.transport.get_extra_info("peername") or ("", 0)
        local = protocol.transport.get_extra_info("sockname") or ("", 0)
        name = f"{peer[0]}:{peer[1]} -> {local[0]}:{local[1]}"
        connection = self.connect(protocol, self.connection_count, str(peer[0]), name)
        connection.connected_at = self.loop.time()
        self.protocols.add(protocol)
        self.empty.clear()
        return connection

    def farewell(self, protocol: AMQPProtocol, why: Exception | None) -> None:
        self.protocols.discard(protocol)
        self.blocked.discard(protocol)
        if not self.protocols:
            self.empty.set()
        if why is not None:
            self.log.info("%s: connection lost: %s", protocol.connection.name, why)

    def block(self, protocol: AMQPProtocol) -> bool:
        """While an alarm is raised: read no more from one that publishes, and say why."""
        reason = self.alarm_reason()
        if not reason:
            return False
        protocol.hold()
        self.blocked.add(protocol)
        protocol.connection.put_blocked(reason)
        return True

    def alarms_changed(self) -> None:
        if self.alarm_reason():
            return
        blocked, self.blocked = self.blocked, set()
        for protocol in blocked:
            protocol.connection.put_unblocked()
            protocol.release()

    def after_turn(self, action: Callable[[], None]) -> None:
        """Do it when the work of this turn is done: two passes of the loop away, the turn's own between."""
        self.loop.call_soon(self.loop.call_soon, action)

    def tick(self) -> None:
        self.on_tick()
        now, date = self.loop.time(), time.time()
        for protocol in list(self.protocols):
            protocol.tick(now)
            if protocol.connection.expires_at <= date:
                protocol.force_close("the credentials have expired")
            if protocol.connection.state < OPEN and now - protocol.connection.connected_at > HANDSHAKE_S_MAX:
                self.log.warning("%s: handshake timeout", protocol.connection.name)
                protocol.transport.abort()
        self.ticker = self.loop.call_later(TICK_S, self.tick)

    def abort(self) -> None:
        """Be gone, without a word to anybody."""
        if self.ticker is not None:
            self.ticker.cancel()
        if self.listener is not None:
            self.listener.close()
        for protocol in list(self.protocols):
            protocol.transport.abort()

    async def stop(self, patience_s: float, reason: str = "shutdown") -> None:
        """Listen no more, say goodbye to everybody, and wait a little for them to answer."""
        if self.ticker is not None:
            self.ticker.cancel()
        if self.listener is not None:
            self.listener.close()
        for protocol in list(self.protocols):
            protocol.force_close(reason)
        if self.protocols:
            await asyncio.wait([asyncio.ensure_future(self.empty.wait())], timeout=patience_s)
        for protocol in list(self.protocols):
            protocol.transport.abort()
        await asyncio.sleep(0)
