"""The read side of a connection: bytes from a socket to whole frames, and how many in a turn.

All connections read into one large buffer, because what is read is worked through before anything else is
read; only the beginning of a frame whose end has not come yet is kept for each. An idle connection costs no
buffer.

A connection that sends a lot at a time is bulk; one that sends little and is answered is interactive, and
makes the shares of bulk connections small for a while (`broker/fairness.py`).
"""

from __future__ import annotations

from time import perf_counter

from embermq.amqp.connection.connection import Connection
from embermq.wire import methods

BASIC_ACK = methods.BasicAck.ID
SMALL_READ_BYTES_MAX = 16 * 1024  # a larger read is bulk; before login no larger one is made
READ_BYTES_PER_TURN_MAX = 256 * 1024
# Many small reads are bulk as well: more than so many bytes in so many milliseconds. After
# either, small reads belong to the bulk for so many milliseconds.
WINDOW_MS, WINDOW_BYTES_MAX = 100, 256 * 1024
BULK_MS = 1000


class Reader:
    __slots__ = (
        "buffer",
        "bulk_ms",
        "connection",
        "read_this_turn",
        "share",
        "turn_count",
        "unfinished",
        "unread",
        "view",
        "window_bytes",
        "window_ms",
    )

    def __init__(self, connection: Connection, buffer: bytearray) -> None:
        self.connection = connection
        self.buffer = buffer
        self.set_share(SMALL_READ_BYTES_MAX)
        self.unfinished = b""  # what is left of the last read
        self.unread = False  # in it may be whole frames: the connection was paused between two
        self.turn_count = -1  # the turn of the last bulk read
        self.read_this_turn = 0
        self.bulk_ms = 0  # when this connection was bulk last
        self.window_ms = self.window_bytes = 0

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
            self.note_small(read)

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
        """Measure how long it takes, and give the others their share of the turn."""
        connection, turn = self.connection, self.connection.turn
        fairness = turn.fairness
        if self.turn_count != turn.count:
            self.turn_count = turn.count
            self.read_this_turn = 0
            fairness.bulk_count += 1
        began_s = perf_counter()
        self.feed(end)
        share = fairness.read_bytes(turn.now_ms, read, perf_counter() - began_s)
        if share != self.share:
            self.set_share(share)
        self.bulk_ms = turn.now_ms
        self.read_this_turn += read
        if self.read_this_turn >= READ_BYTES_PER_TURN_MAX or fairness.has_interactive(turn.now_ms):
            self.read_this_turn = 0
            connection.rest()

    def note_small(self, read: int) -> None:
        """Is that all this client sends? Then it is interactive, unless it sends only acks or heartbeats, for
        which it gets no answer."""
        connection, turn = self.connection, self.connection.turn
        if connection.current_channel == 0 or connection.current_method == BASIC_ACK:
            return
        if turn.now_ms - self.window_ms > WINDOW_MS:
            self.window_ms = turn.now_ms
            self.window_bytes = 0
        self.window_bytes += read
        if self.window_bytes > WINDOW_BYTES_MAX:
            self.bulk_ms = turn.now_ms
        elif turn.now_ms - self.bulk_ms > BULK_MS:
            turn.fairness.note_interactive(turn.now_ms)
