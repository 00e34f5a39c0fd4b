"""The asyncio protocol between transport and engine: bytes in, bytes out, as few calls as possible."""

from __future__ import annotations

import asyncio
from typing import cast

from embermq.client.core.engine import Engine

READ_BUFFER_BYTES = 256 * 1024
WRITE_BYTES = 256 * 1024
CLOSE_S_MAX = 1.0


class ClientProtocol(asyncio.BufferedProtocol):
    """One per transport. `over` is done when the transport has ended, with the reason as its result."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.over: asyncio.Future[Exception | None] = loop.create_future()
        self.writable = True
        self.reading = True
        self._held = False  # publishes may wait in the channels
        engine.buffer.full = False
        self._buffer = bytearray(READ_BUFFER_BYTES)
        self._kept = 0  # bytes of a frame whose end has not come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._kept :]

    def buffer_updated(self, nbytes: int) -> None:
        engine = self.engine
        end = self._kept + nbytes
        used = engine.feed(self._buffer, end)
        self._kept = end - used
        if used and self._kept:
            self._buffer[: self._kept] = self._buffer[used:end]
        if engine.wanted_bytes > len(self._buffer):
            # Not grown in place: the event loop may still hold a view of the old one.
            self._buffer = self._buffer[: self._kept] + bytes(engine.wanted_bytes - self._kept)
        if self.reading and not engine.may_read():
            self.reading = False
            self.transport.pause_reading()
        self.flush()

    def flush(self) -> None:
        """Send what the engine has, unless the transport is full: `resume_writing` comes back to it."""
        engine = self.engine
        if not self.reading and engine.may_read():
            self.reading = True
            self.transport.resume_reading()
        while self.writable and not self.transport.is_closing():
            if self._held:
                self._release()
            data = engine.take()
            if not data:
                break
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.writable = False
        self.engine.buffer.full = self._held = True

    def _release(self) -> None:
        """What was published while the transport was full goes out in pieces."""
        for channel in self.engine.channels.values():
            channel.release(WRITE_BYTES)
        self._held = any(channel.held for channel in self.engine.channels.values())

    def resume_writing(self) -> None:
        self.writable = True
        self.engine.buffer.full = False
        self.flush()

    async def end(self) -> None:
        """Close the transport and wait until it is: the loop may end right after us, and TLS sends a
        close_notify, for the answer to which we wait a moment."""
        self.transport.close()
        await asyncio.wait([self.over], timeout=CLOSE_S_MAX)
        if not self.over.done():
            self.transport.abort()
            await asyncio.wait([self.over], timeout=CLOSE_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(exc)
