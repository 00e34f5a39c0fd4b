"""The thread of a connection: it connects, reads, keeps the heartbeat, and comes back when the line breaks.

Users' threads write by themselves when they are about to wait (`flush`); whatever they leave in the buffer
this thread sends, woken through a socket pair. Nobody waits for the network while holding the engine's lock.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable

from embermq.client.address import Endpoint, Settings
from embermq.client.attempts import Attempts, is_passing
from embermq.client.blocking.reader import Reader
from embermq.client.blocking.transport import Transport, open_transport
from embermq.client.core.engine import Engine
from embermq.client.core.pulse import Pulse
from embermq.client.errors import ClientError, ConnectionClosed
from embermq.client.failure import broken, not_connected

log = logging.getLogger("embermq.client")

FAREWELL_S = 2.0  # how long the last words may take
WRITABLE_POLL_MS = 500
NOTHING = memoryview(b"")  # not the empty end of what was sent, whose memory is to be used again
LED_POLL_S = 0.005  # how often to look whether a user's thread has stopped reading
LINGER_MS = 1  # what a user's thread leaves behind may gather so long: taking turns for each message is dear


class Line:
    """`on_change` is told about "lost" and "reconnected"; it must not wait."""

    def __init__(self, settings: Settings, on_change: Callable[[str, object], None]) -> None:
        self.settings = settings
        self.on_change = on_change
        self.engine: Engine
        self.reader = Reader(self.wake)
        self.transport: Transport | None = None
        self.endpoint: Endpoint | None = None
        self.ended: ClientError | None = None  # the engine wants this transport shut
        self.stopping = threading.Event()
        self.was_open = False  # ever
        self.reached_open = False  # this time
        self._looks_soon = False  # our thread will look by itself whether there is output
        self._send_lock = threading.Lock()
        self._unsent = NOTHING
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self.thread = threading.Thread(target=self._run, name="embermq-client", daemon=True)

    def start(self, engine: Engine) -> None:
        """The connection, which is the engine's shell, is ready."""
        self.engine = self.reader.engine = engine
        self.thread.start()

    def wake(self) -> None:
        """Have the thread look: there is output, or the end."""
        try:
            self._wake_writer.send(b"\0")
        except OSError:
            pass  # full: it will look anyway; closed: it is gone

    def nudge(self) -> None:
        """There is output. While a user's thread reads, ours looks every few milliseconds by itself.

        So it is not woken for each ack of a thread that is about to ask for the next message.
        """
        if not self._looks_soon:
            self.wake()

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
                return self.ended or error  # who closes it just after it broke has closed it
            pause_s = attempts.pause_after(error, was_open=self.reached_open)
            if pause_s is None:
                return error
            if self.stopping.wait(pause_s):
                return ConnectionClosed("the connection was closed by its user")

    def _connect_and_serve(self, endpoint: Endpoint) -> ClientError:
        with self.engine.lock:
            if not self.stopping.is_set():
                self.ended = None
        try:
            transport = open_transport(endpoint, self.settings)
        except OSError as failure:
            return not_connected(endpoint, self.settings, failure)
        self._unsent = NOTHING
        self.reader.begin()
        self.endpoint = endpoint
        try:
            with self.engine.lock:
                self.transport = transport
                self.engine.start()
            error = self._serve(transport)
        finally:
            self._looks_soon = False
            with self.engine.lock:
                self.transport = None
            transport.shut()
            with self._send_lock:  # a user's thread may be about to write
                self.reader.close(transport)
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
        next_tick_s = 0.0
        while True:
            self._looks_soon = False
            blocked = self._send_some(transport)
            if self.ended is not None:
                self._say_goodbye(transport)
                return self.ended
            wanted = select.POLLOUT if blocked else 0
            led = self.reader.is_led
            if engine.congested is None and not led:
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
            self._looks_soon = led  # what comes after this waits for the end of the poll
            events = poller.poll(max(min(next_tick_s - now_s, LED_POLL_S if led else 60.0), 0) * 1000)
            if events and all(descriptor != transport.fileno() for descriptor, _ in events):
                self._wake_reader.recv(4096)
                if not self.reader.is_led and not led:
                    events = poller.poll(LINGER_MS)
                else:
                    events = []
            for descriptor, event in events:
                if descriptor != transport.fileno():
                    self._wake_reader.recv(4096)
                elif event & ~select.POLLOUT:
                    try:
                        self.reader.read(transport)
                    except OSError as failure:
                        return self._why(failure)

    def _why(self, failure: OSError) -> ClientError:
        """After the last words have been read, by whichever thread, the end is no surprise."""
        if self.ended is not None:
            return self.ended
        return broken(self.engine, self.endpoint, self.settings, failure)

    def read_until(self, done: Callable[[], bool], deadline_s: float) -> None:
        """For users' threads about to wait: send everything, then read until `done`, while it is worth it."""
        self.flush(deadline_s)
        transport = self.transport
        if transport is not None and not done():
            self.reader.lead(transport, done, deadline_s)

    # -- writing

    def flush(self, deadline_s: float = math.inf) -> None:
        """Send everything now; waits while the broker does not take it. For users' threads."""
        while self.engine.out.size or self._unsent:
            with self._send_lock:
                transport = self.transport
                if transport is None:
                    return
                if not self._send_now(transport):
                    left_ms = (deadline_s - time.monotonic()) * 1000
                    if left_ms <= 0:
                        return  # the thread of the connection goes on with it
                    try:
                        poller = select.poll()
                        poller.register(transport, select.POLLOUT)
                        poller.poll(min(WRITABLE_POLL_MS, left_ms))
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
                        data = self.engine.lend()
                    if not data and not transport.unsent:
                        return True
                    self._unsent = data
                    del data
                self._unsent = self._unsent[transport.send(self._unsent) :] or NOTHING
                if not (self._unsent or self.engine.out.size or transport.unsent):
                    return True
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = NOTHING
            transport.shut()  # the reading side says what happened
            return True

    def _say_goodbye(self, transport: Transport) -> None:
        deadline_s = time.monotonic() + FAREWELL_S
        poller = select.poll()
        poller.register(transport, select.POLLOUT)
        while self._send_some(transport) and time.monotonic() < deadline_s:
            poller.poll(FAREWELL_S * 1000)
