"""Reading from the transport: by the thread of the connection, or by the thread that waits for the answer.

A thread that is about to wait reads by itself for a moment (it *leads*): the answer then reaches it without
another thread being woken first, which makes a call several times quicker. After `AWAIT_MS` without success
it hands over to the connection's thread, which stays away from the socket while somebody leads.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

from embermq.client.blocking.transport import AWAIT_MS, Transport
from embermq.client.core.engine import Engine

READ_BUFFER_BYTES = 512 * 1024
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
                self._read(transport, transport.receive_into)
            finally:
                self._lock.release()

    # -- users' threads

    def lead(self, transport: Transport, done: Callable[[], bool], deadline_s: float) -> None:
        """Read until `done`, for as long as that seems worth it; the caller may have to sleep after it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            while not done() and self.engine.congested is None:
                self._led_at_s = now_s = time.monotonic()
                left_ms = (deadline_s - now_s) * 1000
                if transport.can_wait and left_ms >= AWAIT_MS:
                    if not self._read(transport, transport.await_into):
                        break
                elif left_ms <= 0 or not is_readable(transport, min(AWAIT_MS, left_ms)):
                    break
                else:
                    self._read(transport, transport.receive_into)
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

    def _read(self, transport: Transport, receive_into: Callable[[memoryview], int]) -> bool:
        """Read once, or while the transport holds something back; false if nothing came."""
        engine = self.engine
        came = False
        while True:
            view = memoryview(self._buffer)[self._kept :]
            try:
                size = receive_into(view)
            except BlockingIOError:
                return came
            finally:
                view.release()
            if size == 0:
                raise ConnectionResetError("closed by the other side")
            came = True
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
                return True


def is_readable(transport: Transport, timeout_ms: float) -> bool:
    poller = select.poll()
    poller.register(transport, select.POLLIN)
    return bool(poller.poll(timeout_ms))
