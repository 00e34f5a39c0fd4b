"""Deliveries by the ten thousand, as columns: for data frames and the like."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from embermq.client.blocking.consumer import Consuming, deadline_after
from embermq.client.blocking.inbox import ColumnInbox, await_arrival
from embermq.client.blocking.waiter import Waiter
from embermq.client.core.block_columns import columns_for, known_arguments
from embermq.client.core.columns import ColumnBatch
from embermq.wire.methods import BasicConsume

if TYPE_CHECKING:
    from embermq.client.blocking.channel import Channel


class ColumnConsumer(Consuming):
    """`fetch` batches. Made by `Channel.consume_columns`.

    The consumer argument `x-stream-blocks` makes a range of a stream come quicker, where the broker has that.

    After a reconnection it goes on by itself, as other consumers do. What is not acked goes back to the queue
    when the channel is closed.
    """

    inbox: ColumnInbox

    def __init__(self, channel: Channel, consume: BasicConsume, wanted: Collection[str]) -> None:
        consume.arguments = known_arguments(consume.arguments, channel.connection.server_properties)
        super().__init__(channel, ColumnInbox(channel.core, consume))
        self.inbox.columns = columns_for(wanted, consume.arguments)

    @property
    def arrived_count(self) -> int:
        """Messages that wait for the next `fetch`."""
        return self.inbox.count

    def fetch(self, messages_min: int = 1, timeout_s: float | None = None) -> ColumnBatch | None:
        """What has arrived: when it is so many messages, or 4 MiB, or what came within `timeout_s`.

        None when that is nothing, or at the end. With acks the prefetch must allow so many.
        """
        inbox, commands = self.inbox, self.inbox.commands
        deadline_s = deadline_after(timeout_s)
        if not inbox.ready and inbox.error is None:
            commands.post(inbox.want, max(messages_min, 1))
            await_arrival([inbox], deadline_s)
        if not inbox.ready and inbox.core.error is None:
            # The time is over, or the end has come: what there is.
            waiter = Waiter()
            commands.post(inbox.hand_out)
            commands.post(waiter.set_result, None)
            waiter.wait(None)
        elif not inbox.ready:
            inbox.hand_out()  # after the end of the connection: there is no thread but ours
        if not inbox.is_finished():
            try:
                for batch in inbox.pops:
                    return batch  # type: ignore[no-any-return]
            except IndexError:
                pass
        self.raise_error()
        return None

    def ack(self, batch: ColumnBatch, count: int | None = None) -> None:
        """Settle it, or its first messages, and what came before it on this channel."""
        tag = batch.last_tag if count is None else batch.last_tag - batch.count + count
        core = self.inbox.core
        self.inbox.commands.post(core.ack, tag, True, batch.epoch)
