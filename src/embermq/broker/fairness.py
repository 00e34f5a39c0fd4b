"""Shares of a turn: how much is read from one connection and handed out by one queue at a time.

Large shares cost less for each message, small ones let others be served sooner. Connections that send much at
a time (bulk) get large shares while they are alone. While there are connections that send little and wait for
answers (interactive), shares are small: docs/flow-control.md.
"""

from __future__ import annotations

INTERACTIVE_MS = 200  # so long after such a connection was read from, shares stay small
SHARE_S = 0.0001  # the time that all bulk connections together may take for what is read in a turn
READ_BYTES_MIN, READ_BYTES_MAX = 24 * 1024, 512 * 1024
READ_BYTES_STEP = 8 * 1024
# A queue hands out a number of bytes in a turn; so much is added for each delivery, whatever its size.
DELIVERY_BYTES = 64
DELIVERY_BYTES_INTERACTIVE = 512


class Fairness:
    __slots__ = ("bulk_before_count", "bulk_count", "delivery_bytes", "interactive_ms")

    def __init__(self) -> None:
        self.interactive_ms = 0  # when an interactive connection was read from last
        self.bulk_count = 0  # bulk connections read from since the last turn
        self.bulk_before_count = 0  # and in the turn before
        self.delivery_bytes = DELIVERY_BYTES

    def has_interactive(self, now_ms: int) -> bool:
        return now_ms - self.interactive_ms < INTERACTIVE_MS  # a clock that was set back: far apart

    def note_interactive(self, now_ms: int) -> None:
        self.interactive_ms = now_ms

    def begin_turn(self, now_ms: int) -> None:
        self.bulk_before_count = self.bulk_count
        self.bulk_count = 0
        self.delivery_bytes = DELIVERY_BYTES_INTERACTIVE if self.has_interactive(now_ms) else DELIVERY_BYTES

    def read_bytes(self, now_ms: int, size: int, took_s: float) -> int:
        """How much to read next from a bulk connection, of which `size` bytes took so long."""
        if not self.has_interactive(now_ms):
            return READ_BYTES_MAX
        share_s = SHARE_S / max(1, self.bulk_count, self.bulk_before_count)
        fitting = size * share_s / (took_s + 1e-9)
        if fitting >= READ_BYTES_MAX:
            return READ_BYTES_MAX
        return max(READ_BYTES_MIN, int(fitting) // READ_BYTES_STEP * READ_BYTES_STEP)
