"""Where the deliveries of one consumer wait until its user takes them."""

from __future__ import annotations

from embermq.client.core.columns import ColumnBatch, Columns
from embermq.client.core.message import Message
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

INBOX_BYTES_MAX = 32 * 1024 * 1024  # of a consumer without acks or prefetch


class Inbox:
    """The shells derive from this and say in `wake` how their user is told; it is called once per read."""

    __slots__ = (
        "buffered_bytes",
        "bytes_max",
        "columns",
        "consume",
        "error",
        "has_credit",
        "messages",
        "no_ack",
        "tag",
        "touched",
    )

    def __init__(self, consume: BasicConsume) -> None:
        self.consume = consume  # as it has to be said again after a reconnection
        self.tag = consume.consumer_tag
        self.no_ack = consume.no_ack
        self.messages: list[Message] = []
        self.columns: Columns | None = None  # instead of messages, for who wants them so
        self.buffered_bytes = 0
        self.bytes_max = INBOX_BYTES_MAX  # with more than this nothing is read until its user has taken some
        self.has_credit = False  # its acks bound what waits here: the prefetch, and nothing else
        self.touched = False  # since the last `wake`
        self.error: ClientError | None = None  # why no more will come

    def wake(self) -> None:
        raise NotImplementedError

    def take(self) -> list[Message]:
        """All that waits."""
        taken = self.messages
        self.messages = []
        self.buffered_bytes = 0
        return taken

    def take_columns(self, epoch: int) -> ColumnBatch:
        """The same for who wants columns."""
        assert self.columns is not None
        self.buffered_bytes = 0
        return self.columns.take(epoch)

    def give_back(self) -> None:
        """No more is wanted: what waits goes back to its queue."""
        for message in self.take():
            if not self.no_ack:
                message.nack(requeue=True)

    def interrupted(self) -> None:
        """The connection broke. What waits will come again, unless it counts as delivered already."""
        if not self.no_ack:
            if self.columns is not None:
                self.columns.clear()
            self.messages = []
            self.buffered_bytes = 0

    def end(self, error: ClientError) -> None:
        if self.error is None:
            self.error = error
        self.wake()
