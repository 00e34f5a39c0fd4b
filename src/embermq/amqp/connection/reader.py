"""The read side of a connection: bytes from a socket to whole frames, and how many in a turn.

All connections read into one large buffer, because what is read is worked through before anything else is
read; only the beginning of a frame whose end has not come yet is kept for each. An idle connection costs no
buffer.

A connection that sends little is interactive, one that sends much is bulk. Interactive ones make the shares
of bulk ones small for a while (`broker/fairness.py`).
"""

from __future__ import annotations

from time import perf_counter

from embermq.amqp.connection.connection import Connection
from embermq.wire import methods

BASIC_ACK = methods.BasicAck.ID
# A larger read is timed, and is the connection's last in the turn; before login none is larger.
SMALL_READ_BYTES_MAX = 16 * 1024
# Interactive: not more than so many bytes in a second, nor in the second before.
WINDOW_MS, INTERACTIVE_BYTES_MAX = 1000, 2 * 1024 * 1024


class Reader:
    __slots__ = (
        "buffer",
        "connection",
        "share",
        "turn_count",
        "unfinished",
        "unread",
        "view",
        "window_before_bytes",
        "window_bytes",
        "window_ms",
    )

    def __init__(self, connection: Connection, buffer: bytearray) -> None:
        self.connection = connection
        self.buffer = buffer
        self.set_share(SMALL_READ_BYTES_MAX)
        self.unfinished = b""  # what is left of the last read
        self.unread = False  # in it may be whole frames: the connection was paused between two
        self.turn_count = -1  # the turn of the last large read
        self.window_ms = self.window_bytes = self.window_before_bytes = 0

    def set_share(self, share: int) -> None:
        """How much to read at once."""
        self.share = share
        self.view = memoryview(self.buffer)[:share]

    def get_buffer(self) -> memoryview:
        used = len(self.unfinished)
        if used:
            self.buffer[:used] = self.unfinished
            return memoryview(self.buffer)[used : used + self.share]
        return self.view

    def buffer_updated(self, read: int) -> None:
        """So many bytes were read behind what was unfinished."""
        end = len(self.unfinished) + read
        if read > SMALL_READ_BYTES_MAX:
            self.feed_bulk(end, read)
        else:
            self.feed(end)
            if self.is_interactive(read):
                turn = self.connection.turn
                turn.fairness.note_interactive(turn.now_ms)

    def feed(self, end: int) -> None:
        used = self.connection.feed(self.buffer, end)
        self.unfinished = bytes(self.buffer[used:end]) if used < end else b""
        self.unread = used < end and self.connection.pauses != 0

    def feed_unread(self) -> None:
        """The connection is no longer paused: work through what has been read."""
        if self.unread:
            end = len(self.unfinished)
            self.buffer[:end] = self.unfinished
            self.feed(end)

    def feed_bulk(self, end: int, read: int) -> None:
        """Measure how long it takes, then let others have their share of the turn."""
        turn = self.connection.turn
        fairness = turn.fairness
        self.is_interactive(read)
        if self.turn_count != turn.count:
            self.turn_count = turn.count
            fairness.bulk_count += 1
        began_s = perf_counter()
        self.feed(end)
        share = fairness.read_bytes(turn.now_ms, read, perf_counter() - began_s)
        if share != self.share:
            self.set_share(share)
        self.connection.rest()

    def is_interactive(self, read: int) -> bool:
        """With so many bytes more. Acks and heartbeats are not answered: nothing waits for them."""
        now_ms = self.connection.turn.now_ms
        if now_ms - self.window_ms >= WINDOW_MS:
            self.window_before_bytes = self.window_bytes if now_ms - self.window_ms < 2 * WINDOW_MS else 0
            self.window_ms = now_ms
            self.window_bytes = 0
        self.window_bytes += read
        if self.connection.current_channel == 0 or self.connection.current_method == BASIC_ACK:
            return False
        return max(self.window_bytes, self.window_before_bytes) <= INTERACTIVE_BYTES_MAX
