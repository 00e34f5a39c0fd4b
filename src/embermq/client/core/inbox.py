"""The inbox of a consumer, in which deliveries wait until the user takes them."""

from __future__ import annotations

from embermq.client.core.columns import ColumnBatch, Columns
from embermq.client.core.message import Message
from embermq.client.core.stream_progress import Progress
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

INBOX_BYTES_MAX = 32 * 1024 * 1024  # of a consumer without acks or prefetch


class Inbox:
    """The shells derive from this and say in `wake` how their user is told; it is called once per read.

    With `progress` it is that of a stream, and goes on after a reconnection with the first message that was
    not settled.
    """

    __slots__ = (
        "buffered_bytes",
        "bytes_max",
        "cancelled",
        "columns",
        "consume",
        "ended_well",
        "error",
        "has_credit",
        "messages",
        "no_ack",
        "progress",
        "tag",
        "touched",
    )

    def __init__(self, consume: BasicConsume, progress: Progress | None = None) -> None:
        self.consume = consume  # as it has to be said again after a reconnection
        self.tag = consume.consumer_tag
        self.no_ack = consume.no_ack
        self.messages: list[Message] = []
        self.columns: Columns | None = None  # instead of messages, for a consumer of columns
        self.progress = progress
        self.buffered_bytes = 0
        self.bytes_max = INBOX_BYTES_MAX  # with more than this nothing is read until its user has taken some
        self.has_credit = False  # its acks bound what waits here: the prefetch, and nothing else
        self.touched = False  # since the last `wake`
        self.cancelled = False  # its user wants no more
        self.error: ClientError | None = None  # why no more will come
        self.ended_well = False  # that is no error

    def wake(self) -> None:
        raise NotImplementedError

    def waiting(self) -> list[Message]:
        """What no user has taken."""
        return self.messages

    def clear(self) -> None:
        self.messages = []
        self.buffered_bytes = 0
        if self.columns is not None:
            self.columns.clear()

    def take(self) -> list[Message]:
        """All that waits."""
        taken = self.messages
        self.messages = []
        self.buffered_bytes = 0
        return taken if self.progress is None else self.progress.took(taken)

    def take_columns(self, epoch: int) -> ColumnBatch:
        """The same for a consumer of columns."""
        assert self.columns is not None
        self.buffered_bytes = 0
        return self.columns.take(epoch)

    def is_finished(self) -> bool:
        """No more is wanted."""
        return self.cancelled or self.progress is not None and self.progress.finished

    def give_back(self) -> None:
        """No more is wanted: what waits goes back to its queue. Nothing is taken out of a stream."""
        if not self.no_ack and self.progress is None:
            for message in self.waiting():
                message.nack(requeue=True)
        self.clear()

    def interrupted(self) -> None:
        """The connection broke. What waits will come again, unless it counts as delivered already."""
        if self.progress is not None:
            self.progress.interrupted(self.waiting())
        if not self.no_ack:
            self.clear()

    def end(self, error: ClientError) -> None:
        if self.error is None:
            self.error = error
        self.ended_well = self.progress is not None and self.progress.is_end(error)
        self.wake()
