"""A consumer on a channel: credit by count and size, its own and the channel's."""

from __future__ import annotations

from embermq.amqp.channel.channel import BLOCK_COUNT, Channel
from embermq.amqp.events import emit_consumer_deleted
from embermq.broker.lease.reader import LeaseReading
from embermq.broker.queue.consumer import UNLIMITED_ROOM, Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue, describe
from embermq.errors import NotFound
from embermq.wire.delivery_headers import COUNT_FIELD, OFFSET_FIELD
from embermq.wire.primitive import encode_shortstr

FRAME_BYTES = 8  # of a frame, beside its payload
BASIC_DELIVER = b"\x00\x3c\x00\x3c"  # class and method, as on the wire
PREFETCH_COUNT = "x-prefetch-count"  # basic.qos has 16 bits for it
BLOCK = BLOCK_COUNT  # the same as a C number


class ChannelConsumer(Consumer):
    __slots__ = ("channel", "prefetch_count", "prefetch_size", "prefix")

    def __init__(
        self,
        channel: Channel,
        queue: Queue | LeaseReading,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        no_local_of: int,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(queue, tag, no_ack, exclusive, no_local_of, arguments)
        self.channel = channel
        self.connection_number = channel.connection.number
        self.prefix = BASIC_DELIVER + encode_shortstr(tag)
        given = arguments.get(PREFETCH_COUNT)
        self.prefetch_count = given if isinstance(given, int) else channel.prefetch_count
        self.prefetch_size = channel.prefetch_size
        self.block_bytes_max = channel.connection.frame_max - FRAME_BYTES
        self.counts_bytes = channel.prefetch_size != 0 or channel.shared_prefetch_size != 0

    def can_take(self, size: int) -> bool:
        channel = self.channel
        if not channel.flow_active or not channel.connection.has_room():
            return False
        if self.no_ack:
            return True
        if self.prefetch_count and self.unacked >= self.prefetch_count:
            return False
        if channel.shared_prefetch_count and channel.shared_unacked >= channel.shared_prefetch_count:
            return False
        # A window in octets never holds up a single message, however large (001, basic.qos).
        if self.prefetch_size and self.unacked and self.unacked_bytes + size > self.prefetch_size:
            return False
        return not (
            channel.shared_prefetch_size
            and channel.shared_unacked
            and channel.shared_unacked_bytes + size > channel.shared_prefetch_size
        )

    def room(self) -> int:
        if not self.can_take(0):
            return 0
        if self.counts_bytes:
            return 1  # how many more would fit depends on them
        channel, room = self.channel, UNLIMITED_ROOM
        if not self.no_ack and self.prefetch_count:
            room = self.prefetch_count - self.unacked
        if not self.no_ack and channel.shared_prefetch_count:
            room = min(room, channel.shared_prefetch_count - channel.shared_unacked)
        return room

    def deliver(self, entry: Entry) -> int:
        channel = self.channel
        connection = channel.connection
        message = entry.message
        channel.delivery_tag += 1
        delivery_tag = channel.delivery_tag
        connection.out.put_delivery(
            self.prefix,
            delivery_tag,
            entry.redelivered,
            message.names,
            channel.number,
            message.content,
            message.header_size,
            connection.frame_max,
        )
        if not connection.dirty:
            connection.touch()
        if self.no_ack:
            channel.no_ack_count += 1
        else:
            entry.delivery_tag = delivery_tag
            channel.unacked[delivery_tag] = entry
            if len(channel.unacked) >= BLOCK:
                channel.begin_block()
            self.unacked += 1
            self.unacked_bytes += message.size
            channel.shared_unacked += 1
            channel.shared_unacked_bytes += message.size
        return 0

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
        channel = self.channel
        connection = channel.connection
        channel.delivery_tag += 1
        connection.out.put_stored_delivery(
            self.prefix,
            channel.delivery_tag,
            channel.number,
            block,
            names_at,
            content_at,
            stop,
            header_size,
            self.field,
            offset,
            connection.frame_max,
        )
        if not connection.dirty:
            connection.touch()
        if entry is not None:
            size = entry.message.size
            entry.delivery_tag = channel.delivery_tag
            channel.unacked[entry.delivery_tag] = entry
            if len(channel.unacked) >= BLOCK:
                channel.begin_block()
            self.unacked += 1
            self.unacked_bytes += size
            channel.shared_unacked += 1
            channel.shared_unacked_bytes += size
        return 0

    def deliver_block(self, block: bytes, start: int, stop: int, offset: int, count: int) -> int:
        channel = self.channel
        connection = channel.connection
        channel.delivery_tag += 1
        connection.out.put_block(
            self.prefix,
            channel.delivery_tag,
            b"\x00" + encode_shortstr(self.queue.name),
            channel.number,
            COUNT_FIELD + count.to_bytes(8, "big") + OFFSET_FIELD + offset.to_bytes(8, "big"),
            block,
            start,
            stop,
            connection.frame_max,
        )
        if not connection.dirty:
            connection.touch()
        return 0

    @property
    def is_active(self) -> bool:
        return self.channel.flow_active

    def range_delivered(self) -> None:
        self.leave_channel()
        self.channel.connection.notify_cancel(self.channel, self.tag)

    def leave_channel(self) -> None:
        if self.channel.consumers.pop(self.tag, None) is not None:
            emit_consumer_deleted(self)

    def queue_deleted(self) -> None:
        if "x-stream-end-offset" in self.arguments:
            self.cut_short(f"no {describe(self.queue)}")
        else:
            self.leave_channel()
            self.channel.connection.notify_cancel(self.channel, self.tag)

    def cut_short(self, reason: str) -> None:
        # To the reader of a range, basic.cancel means that this is whole; here it is not.
        self.leave_channel()
        if not self.channel.closing:
            self.channel.connection.close_channel(self.channel, NotFound(reason))
