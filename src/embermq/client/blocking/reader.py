"""Reading from the transport: by the thread of the connection, or by the thread that waits for the answer.

A thread that is about to wait reads by itself for a moment (it *leads*): the answer then reaches it without
another thread being woken first, which makes a call several times quicker. After `LEAD_MS` without success it
hands over to the connection's thread, which stays away from the socket while somebody leads.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

from embermq.client.blocking.transport import Transport
from embermq.client.core.engine import Engine

READ_BUFFER_BYTES = 512 * 1024
LEAD_MS = 20  # so long a thread reads in vain before it goes to sleep
STAY_AWAY_S = 0.005  # so long after somebody led, the connection's thread expects it to lead again


class Reader:
    def __init__(self, wake: Callable[[], None]) -> None:
        self.engine: Engine  # set by the line
        self._wake = wake
        self._lock = threading.Lock()
        self._buffer = bytearray(READ_BUFFER_BYTES)
        self._kept = 0  # bytes of a frame whose end has not come
        self._led_at_s = 0.0
        self._counting = threading.Lock()
        self._sleepers = 0  # threads that wait and do not lead

    def begin(self) -> None:
        """There is a new transport."""
        with self._lock:
            self._kept = 0

    def close(self, transport: Transport) -> None:
        """Nobody may be reading any more when its number is given to another socket."""
        with self._lock:
            transport.close()

    @property
    def is_led(self) -> bool:
        """A user's thread reads, or will in a moment."""
        return self._lock.locked() or time.monotonic() - self._led_at_s < STAY_AWAY_S

    # -- the connection's thread

    def read(self, transport: Transport) -> None:
        """Read what is there, unless somebody else is at it; OSError at the end."""
        if self._lock.acquire(blocking=False):
            try:
                self._read(transport)
            finally:
                self._lock.release()

    # -- users' threads

    def lead(self, transport: Transport, done: Callable[[], bool], deadline_s: float) -> None:
        """Read until `done`, for as long as that seems worth it; the caller may have to sleep after it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            poller = select.poll()
            poller.register(transport, select.POLLIN)
            while not done() and self.engine.congested is None:
                self._led_at_s = now_s = time.monotonic()
                if now_s >= deadline_s or not poller.poll(min(LEAD_MS, (deadline_s - now_s) * 1000)):
                    break
                self._read(transport)
        except (OSError, ValueError):
            transport.shut()  # the connection's thread sees it too
        finally:
            self._lock.release()
        if self.engine.out.size or self._sleepers:
            self.hand_over()

    def hand_over(self) -> None:
        """Have the connection's thread read again, at once."""
        self._led_at_s = 0.0
        self._wake()

    def sleep(self, wait: Callable[[], object]) -> None:
        """Wait without reading."""
        with self._counting:
            self._sleepers += 1
        if self.is_led:
            self.hand_over()
        try:
            wait()
        finally:
            with self._counting:
                self._sleepers -= 1

    def _read(self, transport: Transport) -> None:
        """Read once, or while the transport holds something back."""
        engine = self.engine
        while True:
            view = memoryview(self._buffer)[self._kept :]
            try:
                size = transport.receive_into(view)
            except BlockingIOError:
                return
            finally:
                view.release()
            if size == 0:
                raise ConnectionResetError("closed by the other side")
            end = self._kept + size
            with engine.lock:
                used = engine.feed(self._buffer, end)
                wanted = engine.wanted_bytes
            self._kept = end - used
            if used and self._kept:
                self._buffer[: self._kept] = self._buffer[used:end]
            if wanted > len(self._buffer):
                self._buffer += bytes(wanted - len(self._buffer))
            if not transport.holds_back:
                return
