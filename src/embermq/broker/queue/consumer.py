"""The interface of a consumer, as queues and streams use it; `amqp.channel.consumer` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embermq.wire.delivery_headers import OFFSET_FIELD

if TYPE_CHECKING:
    from embermq.broker.queue.level import Entry
    from embermq.broker.selector.selector import Selector

NO_CONNECTION = 0  # connections are numbered from 1
UNLIMITED_ROOM = 2**31


class Consumer:
    """A consumer of a queue."""

    __slots__ = (
        "arguments",
        "block_bytes_max",
        "connection_number",
        "counts_bytes",
        "exclusive",
        "field",
        "no_ack",
        "no_local_of",
        "priority",
        "queue",
        "selector",
        "tag",
        "unacked",
        "unacked_bytes",
    )

    def __init__(
        self,
        queue: Any,  # or a lease's reader, see broker.lease.reader
        tag: str,
        no_ack: bool,
        exclusive: bool,
        no_local_of: int,
        arguments: dict[str, object],
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_local_of = no_local_of  # messages published by this connection are not for us; 0 = all are
        self.selector: Selector | None = None  # which messages are for us; None: all
        self.arguments = arguments
        priority = arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0
        self.connection_number = NO_CONNECTION  # the lower, the longer it is there
        self.unacked = 0  # deliveries that are out with this consumer
        self.unacked_bytes = 0
        self.field = OFFSET_FIELD  # the header that tells a stored message's number
        self.block_bytes_max = 0  # how large a block of stored messages had better be, if it gets blocks
        self.counts_bytes = False  # has credit in octets, so that the sizes of its messages matter

    def can_take(self, size: int) -> bool:
        """Is there credit for a message of this size now?"""
        raise NotImplementedError

    def room(self) -> int:
        """For how many messages is there credit now, as far as that is a matter of their number?"""
        raise NotImplementedError

    def deliver(self, entry: Entry) -> int:
        raise NotImplementedError

    def deliver_stored(
        self,
        entry: Entry | None,
        block: bytes,
        names_at: int,
        content_at: int,
        stop: int,
        header_size: int,
        offset: int,
    ) -> int:
        """A message of a stream, as it stands in a block of the log; no entry: it is not to be acked."""
        raise NotImplementedError

    def deliver_block(self, block: bytes, start: int, stop: int, offset: int, count: int) -> int:
        """So many records of a stream, as they stand there one behind the other; the first one's offset."""
        raise NotImplementedError

    def cut_short(self, reason: str) -> None:
        """What the consumer reads is gone before it has read it all."""
        raise NotImplementedError

    def range_delivered(self) -> None:
        """All that the consumer asked for has been delivered; it is a consumer no more."""
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        """False while the consumer has asked for a pause."""
        return True

    def queue_deleted(self) -> None:
        """The queue is gone; the consumer with it."""
        raise NotImplementedError
