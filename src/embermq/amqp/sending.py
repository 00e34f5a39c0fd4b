"""The sending half of a connection: what it says beside answers, and when its output leaves.

Output is put together during a turn and leaves in one piece at its end, unless a promise in it is not true
yet; then all of it waits. The transport says when the peer does not keep up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.amqp.link import Link
from embermq.amqp.shell import Shell
from embermq.amqp.state import HEADER, OPEN
from embermq.broker.turn import Turn
from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, method_frame

if TYPE_CHECKING:
    from embermq.amqp.channel import Channel


class Sending(Link):
    __slots__ = (
        "capabilities",
        "channels",
        "parting_s",
        "sent_bytes",
        "shell",
        "state",
    )

    def __init__(self, turn: Turn, shell: Shell, number: int, frame_max: int) -> None:
        super().__init__(turn, number, frame_max)
        self.shell = shell
        self.state = HEADER
        self.capabilities: dict[str, object] = {}
        self.channels: dict[int, Channel] = {}
        self.parting_s: float | None = None  # the socket is to be shut once held output has left
        self.sent_bytes = 0

    def send(self, number: int, method: methods.Method) -> None:
        self.out.write(method_frame(number, method))
        self.touch()

    def end_turn(self) -> int:
        """Confirm what was published, then hand over all output in one piece."""
        if self.confirming_channels:
            channels, self.confirming_channels = self.confirming_channels, []
            for channel in channels:
                channel.put_confirms()
        if self.holds:
            return 0  # released, it comes here again
        if self.out.size:
            self.sent_bytes += self.out.size + self.out.pieces_size
            if self.out.pieces is None:
                self.shell.send(self.out.take())
            else:
                self.shell.send_pieces(self.out.take_pieces())
        if self.starved:
            self.starved = False
            self.wake_consumers()
        return 0

    # -- promises that are not true yet

    def release_output(self) -> None:
        super().release_output()
        if self.parting_s is not None and not self.holds:
            self.shell.close(self.parting_s)
            self.parting_s = None

    def part(self, after_s: float) -> None:
        """These were the last words: shut the socket behind them."""
        if self.holds:
            self.parting_s = after_s
        else:
            self.shell.close(after_s)

    # -- a peer that does not keep up

    @property
    def has_consumers(self) -> bool:
        return any(channel.consumers for channel in self.channels.values())

    def wake_consumers(self) -> None:
        for channel in self.channels.values():
            channel.credit_returned()
            if channel.redelivery is not None:
                channel.redelivery.go_on()

    def pause(self) -> None:
        """The peer does not read what we send; deliver no more for now."""
        self.writable = False

    def resume(self) -> None:
        self.writable = True
        self.wake_consumers()

    # -- said without having been asked

    def put_blocked(self, reason: str) -> None:
        """Publishers are held; tell a client that understands it."""
        if self.capabilities.get("connection.blocked") and self.state == OPEN:
            self.send(0, methods.ConnectionBlocked(reason))

    def put_unblocked(self) -> None:
        if self.capabilities.get("connection.blocked") and self.state == OPEN:
            self.send(0, methods.ConnectionUnblocked())

    def put_heartbeat(self) -> None:
        """Past everything that waits: held output must not make us look dead."""
        self.sent_bytes += len(HEARTBEAT_FRAME)
        self.shell.send(HEARTBEAT_FRAME)

    def notify_cancel(self, channel: Channel, tag: str) -> None:
        """Tell a client that understands it that its consumer is no more."""
        if self.capabilities.get("consumer_cancel_notify") and not channel.closing:
            channel.send(methods.BasicCancel(tag, no_wait=True))
