"""A TLS transport that is given large output a slice at a time.

TLS encrypts at once whatever it is given, whether the peer reads or not: a body of 20 MB would be 40 MB for
each consumer that it goes to. Here a body waits as the memory that all its consumers share, and the transport
gets the next slice when it has room for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

SLICE_BYTES = 1024 * 1024


class SlicedTransport:
    """What a protocol needs of its transport; `pause` and `resume` come from the protocol."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.waiting: deque[bytes | memoryview] = deque()
        self.waiting_bytes = 0
        self.paused = False
        self.closing = False  # as soon as nothing waits

    def write(self, data: bytes) -> None:
        if self.waiting:
            self.waiting.append(data)
            self.waiting_bytes += len(data)
        else:
            self.transport.write(data)

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:
            self.waiting.append(piece)
            self.waiting_bytes += len(piece)
        self.write_waiting()

    def write_waiting(self) -> None:
        """As much as the transport takes; it says `pause` in between."""
        while self.waiting and not self.paused:
            slices: list[bytes | memoryview] = []
            room = SLICE_BYTES
            while self.waiting and room > 0:
                piece = self.waiting.popleft()
                if len(piece) > room:
                    piece = memoryview(piece)
                    self.waiting.appendleft(piece[room:])
                    piece = piece[:room]
                slices.append(piece)
                room -= len(piece)
            self.waiting_bytes -= SLICE_BYTES - room
            self.transport.writelines(slices)
        if self.closing and not self.waiting:
            self.transport.close()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> bool:
        """Go on; whether there is room for more than what waited."""
        self.paused = False
        self.write_waiting()
        return not self.paused

    def close(self) -> None:
        self.closing = True
        if not self.waiting:
            self.transport.close()

    def abort(self) -> None:
        self.waiting.clear()
        self.waiting_bytes = 0
        self.transport.abort()

    def is_closing(self) -> bool:
        return self.closing or self.transport.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes + self.transport.get_write_buffer_size()

    def get_extra_info(self, name: str) -> Any:
        return self.transport.get_extra_info(name)

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.transport.resume_reading()
