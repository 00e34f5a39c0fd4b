"""basic.recover without requeue: unacknowledged messages are delivered again to the same consumer.

What cannot come again goes back to its queue: what was got by hand, and what a consumer had that is gone. Of
very many, as much is put together at a time as one turn has time for and as the client reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from embermq.amqp.channel.bulk_settle import GIVEN_BACK_AT_ONCE_MAX, count_of, give_back
from embermq.broker.incremental_work import Share

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Blocks, Channel
    from embermq.broker.queue.level import Entry

PIECE_COUNT = 256


def deliver_again(channel: Channel, blocks: Blocks) -> None:
    if count_of(blocks) <= GIVEN_BACK_AT_ONCE_MAX:
        left: list[Entry] = []
        for block in blocks:
            left += deliver_all(channel, block)
        give_back(channel, [left])
        return
    # Nothing else comes in between, as if all came at once.
    channel.pause()
    channel.redelivery = Redelivery(channel, blocks)
    channel.redelivery.go_on()


class Redelivery:
    """Goes on whenever there is room for more of what it has to send."""

    def __init__(self, channel: Channel, blocks: Blocks) -> None:
        self.channel = channel
        self.blocks = blocks[::-1]
        self.entries: Iterator[Entry] = iter(())  # of the block at hand
        self.left: list[Entry] = []  # what must go back

    def go_on(self) -> None:
        channel, connection = self.channel, self.channel.connection
        share = Share(connection.turn.incremental_work.share_s)
        while connection.has_room():
            piece = list(islice(self.entries, PIECE_COUNT))
            if not piece and self.blocks:
                self.entries = iter(self.blocks.pop())
                continue
            if not piece:
                channel.redelivery = None
                channel.resume()
                give_back(channel, [self.left])
                return
            self.left += deliver_all(channel, piece)
            if share.is_over():
                connection.starved = True
                break
        connection.touch()  # goes on at the end of the turn, or when the client reads

    def take_rest(self) -> Blocks:
        """It ends here: what has not come again."""
        self.channel.redelivery = None
        self.channel.resume()
        return [self.left, list(self.entries), *reversed(self.blocks)]


def deliver_all(channel: Channel, entries: Iterable[Entry]) -> list[Entry]:
    """Those that could not be delivered."""
    left: list[Entry] = []
    for entry in entries:
        consumer = entry.consumer
        if consumer is None or not can_come_again(channel, entry):
            left.append(entry)
            continue
        channel.release(entry)
        entry.redelivered = True
        consumer.deliver(entry)
    return left


def can_come_again(channel: Channel, entry: Entry) -> bool:
    """Is the consumer that got this message still there, and the message still with us?"""
    if not entry.queue.messages_leave:
        return False
    return entry.consumer is not None and channel.consumers.get(entry.consumer.tag) is entry.consumer
