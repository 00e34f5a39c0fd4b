"""A connection as its channels see it: a buffer with a bound, sent once per turn; bounds for one turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.interfaces import Sink
from embermq.broker.queue.queue import Queue
from embermq.broker.turn import Turn
from embermq.wire.kernel import Output

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Channel

COPIES_PER_TURN_MAX = 20_000  # of messages for several queues, by all connections
COPIES_PER_S = 1_000_000
OUTPUT_TURN_BYTES_MAX = 1024 * 1024  # deliveries put together for one connection in one turn
LITTLE_BYTES_MAX = 2048


class Link(Sink):
    __slots__ = (
        "confirming_channels",
        "frame_max",
        "holds",
        "number",
        "out",
        "pressed_queue",
        "publishing",
        "stalled",
        "starved",
        "turn",
        "writable",
    )

    def __init__(self, turn: Turn, number: int, frame_max: int) -> None:
        super().__init__()
        self.turn = turn
        self.number = number
        self.frame_max = frame_max
        self.out = Output()
        self.confirming_channels: list[Channel] = []  # with something to confirm at the end of the turn
        self.writable = True  # the transport takes more; cleared while the peer does not keep up
        self.pressed_queue: Queue | None = None  # one that this connection published past its mark
        self.holds = 0  # promises in `out` that are not true yet: nothing is sent until they are
        self.publishing = False  # begins to publish while an alarm is raised
        self.stalled = False  # enough replies or copies for one turn: feed stopped between two frames
        self.starved = False  # a consumer was refused because this turn's share is used up

    def touch(self) -> int:
        """There is output: send it at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_sink(self)
        return 0

    def has_room(self) -> bool:
        """May another delivery be put together in this turn?"""
        if not self.writable:
            return False
        if self.out.size + self.out.pieces_size >= OUTPUT_TURN_BYTES_MAX:
            self.starved = True
            return False
        return True

    def count_copies(self, count: int) -> int:
        """A few bytes for thousands of queues are work for a whole turn: the rest of what was read waits."""
        self.turn.copies += count
        if self.turn.copies > COPIES_PER_TURN_MAX:
            self.turn.wake()
            self.stalled = True
        return 0

    def count_time(self, seconds: float) -> None:
        """The same for thousands of rare methods, such as unbinding: each costs as much as many copies."""
        self.count_copies(int(seconds * COPIES_PER_S))

    def hold_output(self) -> None:
        """Something in the output must not leave before it is on disk."""
        self.holds += 1

    def release_output(self) -> None:
        self.holds -= 1
        self.touch()

    def has_little(self) -> bool:
        """Nothing to send that would keep anybody waiting?"""
        return self.out.size + self.out.pieces_size <= LITTLE_BYTES_MAX
