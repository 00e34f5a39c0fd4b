"""What the consumers of both shells have in common, and what those of streams do differently."""

from __future__ import annotations

import logging
from typing import Literal

from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.streams import Progress
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

log = logging.getLogger("embermq.client")

OnError = Literal["stop", "requeue", "reject"]
ON_ERROR: tuple[OnError, ...] = ("stop", "requeue", "reject")


def check_on_error(on_error: str) -> None:
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")


def callback_failed(message: Message, on_error: OnError, no_ack: bool) -> bool:
    """A callback raised: what becomes of its message, and whether the consumer goes on."""
    if not no_ack and not message.settled:
        message.nack(requeue=on_error != "reject")
    if on_error == "stop":
        return False
    log.exception("a callback failed, its message is given back (on_error=%r)", on_error)
    return True


class ConsumerInbox(Inbox):
    """An inbox whose owner may have had enough."""

    def __init__(self, consume: BasicConsume) -> None:
        super().__init__(consume)
        self.ended_well = False  # the end is no error
        self._cancelled = False

    def is_finished(self) -> bool:
        """No more is wanted."""
        return self._cancelled


class StreamInbox(ConsumerInbox):
    """Goes on after a reconnection with the first message that was not settled.

    Stands before a shell's consumer among the bases of its stream consumer, which sets `progress`.
    """

    progress: Progress

    def take(self) -> list[Message]:
        return self.progress.took(super().take())

    def interrupted(self) -> None:
        self.progress.interrupted(self.messages)
        super().interrupted()

    def end(self, error: ClientError) -> None:
        self.ended_well = self.progress.is_end(error)
        super().end(error)

    def is_finished(self) -> bool:
        return self.progress.finished or super().is_finished()

    def give_back(self) -> None:
        """Nothing is taken out of a stream, so nothing goes back."""
