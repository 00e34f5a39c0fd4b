"""What every read and every write of a connection passes through, and nothing else: the rest is `protocol`.

Every connection reads into the same large buffer, because what is read is worked through before anybody else
reads; only the beginning of a frame whose end has not come yet is kept per connection. So an idle connection
costs no buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.read_fairness import Inflow

if TYPE_CHECKING:
    from asyncio import Transport

READ_BYTES_PER_TURN_MAX = 256 * 1024
STRANGER_READ_BYTES_MAX = 16 * 1024  # at a time, from one who has not logged in: more is a flood


class Traffic:
    __slots__ = (
        "closing",
        "connection",
        "heard",
        "held",
        "inflow",
        "read_buffer",
        "read_this_turn",
        "share",
        "spoke",
        "transport",
        "unfinished",
        "view",
    )

    def __init__(self, read_buffer: bytearray) -> None:
        self.transport: Transport = cast("Transport", None)
        self.connection: Connection = cast("Connection", None)
        self.inflow: Inflow = cast("Inflow", None)
        self.read_buffer = read_buffer
        self.set_share(STRANGER_READ_BYTES_MAX)
        self.unfinished = b""  # the beginning of a frame whose end has not arrived
        self.read_this_turn = 0
        self.held = False  # reading is paused until the turn ends
        self.heard = True  # since the last tick of the heartbeat clock
        self.spoke = True
        self.closing = False

    def get_buffer(self, sizehint: int) -> memoryview:
        used = len(self.unfinished)
        if used:
            self.read_buffer[:used] = self.unfinished
            return memoryview(self.read_buffer)[used : used + self.share]
        return self.view

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = True
        connection = self.connection
        buffer = self.read_buffer
        end = len(self.unfinished) + nbytes
        if nbytes > STRANGER_READ_BYTES_MAX:
            used = self.inflow.feed_much(buffer, end, nbytes)
            if self.inflow.read_bytes != self.share:
                self.set_share(self.inflow.read_bytes)
        else:
            used = connection.feed(buffer, end)
            self.inflow.said_little(nbytes)
        self.unfinished = bytes(buffer[used:end]) if used < end else b""
        self.read_this_turn += nbytes
        if (
            connection.publishing
            or connection.stalled
            or not connection.writable
            or connection.pressed_queue is not None
            or self.held
        ) and self.must_wait():
            return
        if self.read_this_turn >= READ_BYTES_PER_TURN_MAX or (
            nbytes > STRANGER_READ_BYTES_MAX and self.inflow.has_company()
        ):
            self.rest()

    def set_share(self, share: int) -> None:
        """How much to read at once."""
        self.share = share
        self.view = memoryview(self.read_buffer)[:share]

    def send(self, data: bytes) -> None:
        if self.closing or self.transport.is_closing():
            return
        self.spoke = True
        self.transport.write(data)

    def send_pieces(self, pieces: list[memoryview]) -> None:
        if self.closing or self.transport.is_closing():
            return
        self.spoke = True
        self.transport.writelines(pieces)

    def must_wait(self) -> bool:
        """Is there a reason to read no more for now? Whoever knows it lets us go on."""
        raise NotImplementedError

    def rest(self) -> None:
        """Enough for this turn: others have theirs."""
        raise NotImplementedError
