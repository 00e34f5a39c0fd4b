"""Is anybody there beside those who flood the broker? Then nobody's share of a turn takes long.

A large piece of work costs less for each message than many small ones, so who is alone gets large ones. But
everybody else waits for the piece under way. So whoever says little is noted, and for a while after that
pieces are measured by the time they take: what is read from a connection at once (`read_bytes`), and what a
queue hands out in a turn (a delivery counts for its own bytes and for `delivery_bytes` more).
"""

from __future__ import annotations

STAYS_MS = 200
PIECE_S = 0.0001  # to work through what is read at once; as much again goes into handing it out and sending
READ_BYTES_MIN, READ_BYTES_MAX = 24 * 1024, 512 * 1024
READ_BYTES_STEP = 8 * 1024
DELIVERY_BYTES = 64  # frames and names around a message, roughly
DELIVERY_BYTES_IN_COMPANY = 512  # what could be copied and sent in the time the smallest takes


class Company:
    __slots__ = ("delivery_bytes", "floods", "floods_before", "heard_ms")

    def __init__(self) -> None:
        self.heard_ms = 0  # when somebody was read from who says little
        self.floods = 0  # connections with large reads since the last turn
        self.floods_before = 0  # and before that
        self.delivery_bytes = DELIVERY_BYTES

    def is_there(self, now_ms: int) -> bool:
        return now_ms - self.heard_ms < STAYS_MS  # never heard of, or the clock was set back: far apart

    def heard(self, now_ms: int) -> int:
        """Somebody was read from who says little."""
        self.heard_ms = now_ms
        return 0

    def begin_turn(self, now_ms: int) -> int:
        self.floods_before = self.floods
        self.floods = 0
        self.delivery_bytes = DELIVERY_BYTES_IN_COMPANY if self.is_there(now_ms) else DELIVERY_BYTES
        return 0

    def read_bytes(self, now_ms: int, size: int, took_s: float) -> int:
        """So much was read from one connection, and its work took that long: how much should be read next?"""
        if not self.is_there(now_ms):
            return READ_BYTES_MAX
        fitting = size * PIECE_S / (took_s * max(self.floods, self.floods_before) + 1e-9)
        if fitting >= READ_BYTES_MAX:
            return READ_BYTES_MAX
        return max(READ_BYTES_MIN, int(fitting) // READ_BYTES_STEP * READ_BYTES_STEP)
