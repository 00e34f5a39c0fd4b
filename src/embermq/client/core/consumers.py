"""What the consumers of both shells have in common, and what those of streams do differently."""

from __future__ import annotations

from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.streams import Progress
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume


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
