"""Deliveries by the ten thousand, as columns: for data frames and the like."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from embermq.client.blocking.consumer import BlockingInbox
from embermq.client.core.block_columns import columns_for, known_arguments
from embermq.client.core.channel import ChannelCore
from embermq.client.core.columns import ColumnBatch
from embermq.wire.methods import BasicConsume

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel

ENOUGH_BYTES = 4 * 1024 * 1024  # waiting for more than this makes nothing quicker


class ColumnConsumer(BlockingInbox):
    """`fetch` batches. Made by `Channel.consume_columns`.

    The consumer argument `x-stream-blocks` makes a range of a stream come quicker, where the broker has that.

    After a reconnection it goes on by itself, as other consumers do. What is not acked goes back to the queue
    when the channel is closed.
    """

    def __init__(
        self, channel: Channel, core: ChannelCore, consume: BasicConsume, wanted: Collection[str]
    ) -> None:
        consume.arguments = known_arguments(consume.arguments, channel.connection.server_properties)
        super().__init__(channel, core, consume)
        self.columns = columns_for(wanted, consume.arguments)
        self._least = 1
        self.bytes_max = 2 * ENOUGH_BYTES  # one to work with and one that arrives, near to the processor

    def something_to_say(self) -> bool:
        assert self.columns is not None
        return (
            self.columns.count >= self._least
            or self.buffered_bytes >= ENOUGH_BYTES
            or self.error is not None
            or self._cancelled
        )

    @property
    def arrived_count(self) -> int:
        """Messages that wait for the next `fetch`."""
        assert self.columns is not None
        return self.columns.count

    def fetch(self, messages_min: int = 1, timeout_s: float | None = None) -> ColumnBatch | None:
        """What has arrived: when it is so many messages, or 4 MiB, or what came within `timeout_s`.

        None when that is nothing, or at the end. With acks the prefetch must allow so many.
        """
        assert self.columns is not None
        self._least = max(messages_min, 1)
        self.await_arrival(timeout_s)
        with self.arrived:
            if self.columns.count and not self.is_finished():
                batch = self.take_columns(self._core.epoch)
                self._core.engine.relieve(self)
                # While the user works with it, the next one arrives.
                self.channel.connection.read_on()
                return batch
            self.raise_error()
            return None

    def ack(self, batch: ColumnBatch, count: int | None = None) -> None:
        """Settle it, or its first messages, and what came before it on this channel."""
        tag = batch.last_tag if count is None else batch.last_tag - batch.count + count
        self._core.ack(tag, True, batch.epoch)
