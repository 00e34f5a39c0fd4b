"""The thread of a connection: it connects, reads, keeps the heartbeat, and comes back when the line breaks.

Users' threads write by themselves when they are about to wait (`flush`); whatever they leave in the buffer
this thread sends, woken through a socket pair. Nobody waits for the network while holding the engine's lock.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable

from embermq.client.address import Endpoint, Settings
from embermq.client.attempts import Attempts, is_passing
from embermq.client.blocking.transport import Transport, open_transport
from embermq.client.core.engine import Engine
from embermq.client.core.pulse import Pulse
from embermq.client.errors import (
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
)

log = logging.getLogger("embermq.client")

READ_BUFFER_BYTES = 512 * 1024
FAREWELL_S = 2.0  # how long the last words may take
WRITABLE_POLL_MS = 500
LINGER_MS = 1  # what a user's thread leaves behind may gather so long: taking turns for each message is dear


class Line:
    """`on_change` is told about "lost" and "reconnected"; it must not wait."""

    def __init__(self, settings: Settings, on_change: Callable[[str, object], None]) -> None:
        self.settings = settings
        self.on_change = on_change
        self.engine: Engine  # set by the connection, which is the engine's shell
        self.transport: Transport | None = None
        self.endpoint: Endpoint | None = None
        self.ended: ClientError | None = None  # the engine wants this transport shut
        self.stopping = threading.Event()
        self.was_open = False  # ever
        self.reached_open = False  # this time
        self._send_lock = threading.Lock()
        self._unsent = memoryview(b"")
        self._read_buffer = bytearray(READ_BUFFER_BYTES)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self.thread = threading.Thread(target=self._run, name="embermq-client", daemon=True)

    def wake(self) -> None:
        """Have the thread look: there is output, or the end."""
        try:
            self._wake_writer.send(b"\0")
        except OSError:
            pass  # full: it will look anyway; closed: it is gone

    # -- lives of the connection

    def _run(self) -> None:
        try:
            error = self._live()
        except Exception as fault:
            log.exception("the client's thread failed")
            error = ConnectionClosed(f"a fault in the client: {type(fault).__name__}: {fault}")
        with self.engine.lock:
            self.engine.lost(error, final=True)
        self.on_change("closed", error)
        self._wake_reader.close()
        self._wake_writer.close()

    def _live(self) -> ClientError:
        """Connect again and again, until there is no point in it; why there is none."""
        attempts = Attempts(self.settings)
        while True:
            self.reached_open = False
            error = self._connect_and_serve(attempts.endpoint)
            if self.stopping.is_set():
                return error
            pause_s = attempts.pause_after(error, was_open=self.reached_open)
            if pause_s is None:
                return error
            if self.stopping.wait(pause_s):
                return ConnectionClosed("the connection was closed by its user")

    def _connect_and_serve(self, endpoint: Endpoint) -> ClientError:
        try:
            transport = open_transport(endpoint, self.settings)
        except OSError as failure:
            return ConnectionFailed(
                f"no connection to {endpoint}: {failure}; is a broker running there, and is the port right?"
            )
        self._unsent = memoryview(b"")
        self.ended = None
        self.endpoint = endpoint
        try:
            with self.engine.lock:
                self.transport = transport
                self.engine.start()
            error = self._serve(transport)
        finally:
            with self.engine.lock:
                self.transport = None
            transport.shut()
            with self._send_lock:  # a user's thread may be about to write
                transport.close()
        with self.engine.lock:
            self.engine.lost(error, final=False)
        if self.reached_open and is_passing(error) and not self.stopping.is_set():
            log.warning("connection to %s lost: %s", endpoint, error)
            self.on_change("lost", error)
        return error

    def opened(self) -> None:
        """The engine says so, under its lock."""
        if self.was_open:
            log.info("connection to %s is back, everything is restored", self.endpoint)
            self.on_change("reconnected", None)
        self.was_open = self.reached_open = True

    # -- one life

    def _serve(self, transport: Transport) -> ClientError:
        engine = self.engine
        pulse = Pulse(engine, time.monotonic())
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        kept = 0  # bytes of a frame whose end has not come
        next_tick_s = 0.0
        while True:
            blocked = self._send_some(transport)
            if self.ended is not None:
                self._say_goodbye(transport)
                return self.ended
            wanted = select.POLLOUT if blocked else 0
            if engine.congested is None:
                wanted |= select.POLLIN
            poller.register(transport, wanted)
            now_s = time.monotonic()
            if now_s >= next_tick_s:
                next_tick_s = now_s + pulse.tick_s
                with engine.lock:
                    error = pulse.tick(now_s)
                if error is not None:
                    return error
                if engine.out.size:
                    continue
            events = poller.poll(max(next_tick_s - now_s, 0) * 1000)
            if events and all(descriptor != transport.fileno() for descriptor, _ in events):
                self._wake_reader.recv(4096)
                events = poller.poll(LINGER_MS)
            for descriptor, event in events:
                if descriptor != transport.fileno():
                    self._wake_reader.recv(4096)
                elif event & ~select.POLLOUT:
                    try:
                        kept = self._read(transport, kept)
                    except OSError as failure:
                        return ConnectionLost(f"the connection to {self.endpoint} broke: {failure}")

    def _read(self, transport: Transport, kept: int) -> int:
        """Read once, or while the transport holds something back; how many bytes of a frame are left over."""
        engine = self.engine
        while True:
            view = memoryview(self._read_buffer)[kept:]
            try:
                size = transport.receive_into(view)
            except BlockingIOError:
                return kept
            finally:
                view.release()
            if size == 0:
                raise ConnectionResetError("closed by the other side")
            end = kept + size
            with engine.lock:
                used = engine.feed(self._read_buffer, end)
                wanted = engine.wanted_bytes
            kept = end - used
            if used and kept:
                self._read_buffer[:kept] = self._read_buffer[used:end]
            if wanted > len(self._read_buffer):
                self._read_buffer += bytes(wanted - len(self._read_buffer))
            if self.ended is not None or not transport.holds_back:
                return kept

    # -- writing

    def flush(self) -> None:
        """Send everything now; waits while the broker does not take it. For users' threads."""
        while self.engine.out.size or self._unsent:
            with self._send_lock:
                transport = self.transport
                if transport is None:
                    return
                if not self._send_now(transport):
                    try:
                        poller = select.poll()
                        poller.register(transport, select.POLLOUT)
                        poller.poll(WRITABLE_POLL_MS)
                    except (OSError, ValueError):
                        return  # the thread of the connection sees it too

    def _send_some(self, transport: Transport) -> bool:
        """Send without waiting; whether something is left. A user's thread that sends sends it all."""
        if not self._send_lock.acquire(blocking=False):
            return False
        try:
            return not self._send_now(transport)
        finally:
            self._send_lock.release()

    def _send_now(self, transport: Transport) -> bool:
        """As much as the system takes; whether that was everything."""
        try:
            while True:
                if not self._unsent:
                    with self.engine.lock:
                        data = self.engine.take()
                    if not data and not transport.unsent:
                        return True
                    self._unsent = memoryview(data)
                self._unsent = self._unsent[transport.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = memoryview(b"")
            transport.shut()  # the reading side says what happened
            return True

    def _say_goodbye(self, transport: Transport) -> None:
        deadline_s = time.monotonic() + FAREWELL_S
        while not self._send_now(transport) and time.monotonic() < deadline_s:
            select.select([], [transport], [], FAREWELL_S)
