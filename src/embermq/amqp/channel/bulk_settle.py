"""Settling or requeueing many deliveries: at once, or in pieces if they are very many.

In pieces means that the connection neither hears nor says anything until all is done, so that whatever comes
next on it finds it done; other connections go on.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from embermq.amqp.connection.state import Pause
from embermq.broker.incremental_work import Pieces
from embermq.broker.queue import requeue as returned

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Blocks, Channel
    from embermq.amqp.connection.connection import Connection
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.queue.level import Entry
    from embermq.broker.queue.queue import Queue

SETTLED_AT_ONCE_MAX = 8192
GIVEN_BACK_AT_ONCE_MAX = 1024
GIVEN_BACK_PER_TURN_MAX = 10_000  # by all channels together, each of which may have few
DISCARDED_AT_ONCE_MAX = 64  # each may become a dead letter, which is as much work as a publish


def in_pieces(channel: Channel, pieces: Pieces, done: Callable[[], None] | None = None) -> None:
    connection = channel.connection

    def end() -> None:
        try:
            if done is not None:
                done()
        finally:
            connection.release_output()

    connection.hold_output()
    connection.pause(Pause.WORK)
    connection.turn.incremental_work.begin(pieces, end, about=channel)


def await_unbinding(channel: Channel, thing: Queue | Exchange) -> None:
    """The answer leaves when the last binding of what was deleted has left the disk."""
    connection, definitions = channel.connection, channel.vhost.definitions
    if channel.vhost.binding_removal.is_under_way(thing):
        connection.hold_output()
        connection.pause(Pause.WORK)
        connection.turn.incremental_work.when_done(
            thing, lambda: definitions.when_safe(connection.release_output)
        )


def count_of(blocks: Blocks) -> int:
    return sum(map(len, blocks))


def settle(channel: Channel, blocks: Blocks) -> None:
    if channel.transaction is not None:
        channel.transaction.acks += blocks
    elif count_of(blocks) > SETTLED_AT_ONCE_MAX:
        in_pieces(channel, settle_pieces(channel, blocks))
    else:
        channel.connection.count_copies(count_of(blocks))
        for block in blocks:
            channel.settle(list(block))


def settle_pieces(channel: Channel, blocks: Blocks) -> Pieces:
    blocks.reverse()
    while blocks:
        channel.settle(list(blocks.pop()))
        yield


def discard(channel: Channel, blocks: Blocks) -> None:
    if count_of(blocks) > DISCARDED_AT_ONCE_MAX:
        in_pieces(channel, discard_pieces(channel, blocks))
    else:
        for block in blocks:
            channel.discard(list(block))


def discard_pieces(channel: Channel, blocks: Blocks) -> Pieces:
    blocks.reverse()
    while blocks:
        entries = iter(blocks.pop())
        while piece := list(islice(entries, DISCARDED_AT_ONCE_MAX)):
            channel.discard(piece)
            yield


def are_too_many(blocks: Blocks, connection: Connection) -> bool:
    """To be given back at once, or with what this turn has done already?"""
    count = count_of(blocks)
    connection.count_copies(count)
    return count > GIVEN_BACK_AT_ONCE_MAX or (count > 0 and connection.turn.copies > GIVEN_BACK_PER_TURN_MAX)


def was_got(entry: Entry) -> bool:
    """By basic.get: the client has asked for this message, so it has not come to it unasked."""
    return entry.consumer is None


def give_back(channel: Channel, blocks: Blocks) -> None:
    """To their queues, each to its place."""
    if are_too_many(blocks, channel.connection):
        # What goes back comes before what waits: this channel gets nothing until it is there.
        channel.pause()
        pieces = returned.give_back(blocks, channel.release_all, channel.has_failed)
        in_pieces(channel, pieces, channel.resume)
    else:
        channel.requeue([entry for block in blocks for entry in block])


def give_back_pieces(channel: Channel, blocks: Blocks) -> Pieces:
    """The same as part of something larger."""
    yield from returned.give_back(blocks, channel.release_all, channel.has_failed)
    channel.credit_returned()
