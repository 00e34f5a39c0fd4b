"""Commands: what other threads have the thread of a connection do, in the order of their calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from embermq.client.core.message import Message, Settling
from embermq.client.errors import ClientError

AWAKE, LINGERING, ASLEEP = range(3)


class Commands:
    """A queue of acked messages, and of functions with their arguments.

    Python looks for signals when a function begins, after a call and when a loop goes round. So an exception
    out of a handler comes before the append or after it, never in between.
    """

    __slots__ = ("queue", "resting", "wake_up")

    def __init__(self, wake_up: Callable[[bytes], object]) -> None:
        self.queue: deque[Any] = deque()
        self.resting = AWAKE  # what the thread does at the moment
        self.wake_up = wake_up  # has it look, when it sleeps

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have the thread of the connection call it."""
        self.queue.append((function, arguments))
        if self.resting:
            self.resting = AWAKE
            self.wake_up(b"\0")

    def post_ack(self, message: Message) -> int:
        """Have it acked; more acks may gather while the thread lingers."""
        self.queue.append(message)
        if self.resting == ASLEEP:
            self.resting = AWAKE
            self.wake_up(b"\0")
        return 0

    def hurry(self) -> None:
        """The user waits: acks that gather are what the broker waits for."""
        if self.resting == LINGERING:
            self.resting = AWAKE
            self.wake_up(b"\0")

    def run(self) -> None:
        """Do what was posted."""
        run_all(self.queue)

    def close(self, queue: ClosedQueue) -> deque[Any]:
        """No more is done; what was posted before."""
        left, self.queue = self.queue, queue
        return left


def run_all(queue: deque[Any]) -> None:
    """In order; acks of a channel that stand side by side go out as one, where that settles nothing else."""
    acked: list[Message] = []
    channel: Settling | None = None
    while queue:
        command = queue.popleft()
        if type(command) is Message:
            if command._channel is not channel:
                if channel is not None:
                    channel.ack_batch_now(acked)
                acked, channel = [], command._channel
            acked.append(command)
            continue
        if channel is not None:
            channel.ack_batch_now(acked)
            acked, channel = [], None
        if type(command) is tuple:
            command[0](*command[1])
        else:
            command.act()  # something was forgotten
    if channel is not None:
        channel.ack_batch_now(acked)


class ClosedQueue(deque[Any]):
    """After the end: what needs an answer cannot be asked for any more, the rest does nothing."""

    UNANSWERED = ("settle_delivery_now", "ack_batch_now", "ack", "abandon", "give_up")

    def __init__(self, error: ClientError) -> None:
        super().__init__()
        self.error = error

    def append(self, command: Any) -> None:
        if type(command) is tuple and command[0].__name__ not in self.UNANSWERED:
            raise self.error


class ParentsQueue(ClosedQueue):
    """After a fork: whatever the child wants done is the parent's to do."""

    def append(self, command: Any) -> None:
        raise self.error
