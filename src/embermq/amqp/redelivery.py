"""basic.recover without requeue: what is unacknowledged comes again, to the consumer that had it.

What cannot come again goes back to its queue: what was got by hand, and what a consumer had that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from embermq.amqp.settling import GIVEN_BACK_AT_ONCE_MAX, count_of, give_back, in_pieces
from embermq.broker.piecework import Pieces
from embermq.broker.stream import Stream

if TYPE_CHECKING:
    from embermq.amqp.channel import Channel
    from embermq.amqp.deliveries import Blocks
    from embermq.broker.level import Entry

PIECE_COUNT = 256


def deliver_again(channel: Channel, blocks: Blocks) -> None:
    left: list[Entry] = []
    if count_of(blocks) <= GIVEN_BACK_AT_ONCE_MAX:
        for block in blocks:
            left += deliver_all(channel, block)
        give_back(channel, [left])
        return
    # Nothing else comes in between, as if all came at once.
    active, channel.flow_active = channel.flow_active, False

    def done() -> None:
        if not channel.closing:
            channel.flow_active = active
            channel.credit_returned()
        give_back(channel, [left])

    in_pieces(channel, deliver_in_pieces(channel, blocks, left), done)


def deliver_in_pieces(channel: Channel, blocks: Blocks, left: list[Entry]) -> Pieces:
    blocks.reverse()
    while blocks:
        entries = iter(blocks.pop())
        while piece := list(islice(entries, PIECE_COUNT)):
            left += deliver_all(channel, piece)
            yield


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
    if isinstance(entry.queue, Stream):
        return False
    return entry.consumer is not None and channel.consumers.get(entry.consumer.tag) is entry.consumer
