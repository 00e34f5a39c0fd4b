"""What comes in from one connection: a flood, or the little that somebody has to say who waits for an answer?

Who says little is company for those who flood us, and is noted as such. From them no more is read at once
than the others can be kept waiting for (`broker.company`).
"""

from __future__ import annotations

from time import perf_counter

from embermq.amqp.connection.connection import Connection
from embermq.wire import methods

BASIC_ACK = methods.BasicAck.ID
FLOOD_MS = 1000  # for so long after much has come, little is a part of that
COUNTED_MS, LITTLE_BYTES_MAX = 100, 256 * 1024  # more in that time is much, in however small pieces


class Inflow:
    __slots__ = ("connection", "counted_bytes", "counted_ms", "flooded_ms", "flooded_turn", "read_bytes")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.read_bytes = 0  # as much should be read at once from one who floods us
        self.flooded_ms = 0  # when that was last
        self.flooded_turn = -1
        self.counted_ms = self.counted_bytes = 0

    def feed_much(self, buf: bytearray, end: int, read: int) -> int:
        """`feed` for one who floods us: see how long it takes, for others may be waiting."""
        turn = self.connection.turn
        if self.flooded_turn != turn.count:
            self.flooded_turn = turn.count
            turn.company.floods += 1
        began_s = perf_counter()
        used = self.connection.feed(buf, end)
        self.read_bytes = turn.company.read_bytes(turn.now_ms, read, perf_counter() - began_s)
        self.flooded_ms = turn.now_ms
        return used

    def said_little(self, read: int) -> int:
        """Little was fed. Is that all this client has to say? Then we have company.

        Who acknowledges waits for nothing, nor does who merely shows that he is still there.
        """
        if self.connection.current_channel == 0 or self.connection.current_method == BASIC_ACK:
            return 0
        turn = self.connection.turn
        if turn.now_ms - self.counted_ms > COUNTED_MS:
            self.counted_ms = turn.now_ms
            self.counted_bytes = 0
        self.counted_bytes += read
        if self.counted_bytes > LITTLE_BYTES_MAX:
            self.flooded_ms = turn.now_ms
        elif turn.now_ms - self.flooded_ms > FLOOD_MS:
            turn.company.heard(turn.now_ms)
        return 0

    def has_company(self) -> bool:
        """Is there anybody with little to say, of late?"""
        turn = self.connection.turn
        return turn.company.is_there(turn.now_ms)
