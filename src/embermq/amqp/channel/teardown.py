"""The end of a channel or connection, and of all that belongs to it: at once, or in pieces if that is much.

First what was unacknowledged goes back, then the consumers leave, because an auto-delete queue goes with its
last one; then the exclusive queues go. In pieces means that the last words of the connection wait until all
is done, so that a client finds it done. A channel that ends takes part in nothing from the first moment on,
and an exclusive queue that is about to go is not found any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from embermq.amqp.channel.bulk_settle import GIVEN_BACK_AT_ONCE_MAX, are_too_many, count_of, was_got
from embermq.amqp.connection.state import Pause
from embermq.amqp.connection.vhost_admission import leave
from embermq.amqp.events import channel_closed, connection_closed, emit_consumer_deleted
from embermq.broker.events import INTERNAL_USER
from embermq.broker.incremental_work import Pieces
from embermq.broker.queue import requeue as returned
from embermq.broker.queue.dispatch import consumer_left
from embermq.broker.queue.queue import HasFailed, Queue, failed

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Blocks, Channel
    from embermq.amqp.channel.consumer import ChannelConsumer
    from embermq.amqp.connection.connection import Connection
    from embermq.broker.queue.consumer import Consumer
    from embermq.broker.queue.level import Entry
    from embermq.broker.vhost import VirtualHost

CONSUMERS_AT_ONCE = 64
CHANNELS_AT_ONCE = 256
QUEUES_AT_ONCE = 16


def end_channel(channel: Channel, in_order: bool) -> None:
    """`in_order`: its client is not at fault, so what a consumer had not acknowledged is no failed try."""
    begin(channel.connection, channels_end(channel.connection, [channel], in_order), channel)


def end_connection(connection: Connection, in_order: bool) -> None:
    channels = list(connection.channels.values())
    connection.channels.clear()
    connection.confirming_channels.clear()
    user = connection.user
    if user is not None:
        user.channel_count -= len(channels)
    announced, connection.announced = connection.announced, False
    if announced:  # its place is free from now on: its client may be back before all is done
        leave(user, connection.vhost)
    with connection.broker.events.acting(INTERNAL_USER if user is None else user.name):
        begin(connection, connection_ends(connection, channels, announced, in_order), connection)


def begin(connection: Connection, pieces: Pieces, about: object) -> None:
    is_held = False

    def done() -> None:
        if is_held:
            connection.release_output()

    pieces = connection.broker.events.acting_in_pieces(pieces)
    if connection.turn.incremental_work.start(pieces, done, about):
        is_held = True
        connection.hold_output()
        connection.pause(Pause.WORK)


def connection_ends(
    connection: Connection, channels: list[Channel], announced: bool, in_order: bool
) -> Pieces:
    queues, connection.exclusive_queues = connection.exclusive_queues, set()
    if queues and connection.vhost is not None:
        connection.vhost.ending |= queues
    yield from channels_end(connection, channels, in_order)
    for number, queue in enumerate(queues, 1):
        queue.vhost.delete_queue(queue)
        if number % QUEUES_AT_ONCE == 0:
            yield
    if announced:
        connection.broker.events.emit("connection.closed", connection_closed, connection)


def channels_end(connection: Connection, channels: list[Channel], in_order: bool) -> Pieces:
    open_until_now = [channel for channel in channels if not channel.closing]
    blocks, consumers = parted(channels)
    gone_from = removed_at_once(consumers) if len(consumers) > CONSUMERS_AT_ONCE or blocks else set()
    with awaited(connection.vhost, consumers if count_of(blocks) > GIVEN_BACK_AT_ONCE_MAX else []):
        yield from give_back(blocks, connection, was_got if in_order else failed)
        for number, consumer in enumerate(consumers, 1):
            if consumer.queue in gone_from:
                consumer_left(consumer.queue)
            else:
                consumer.queue.remove_consumer(consumer)
            emit_consumer_deleted(consumer)
            if number % CONSUMERS_AT_ONCE == 0:
                yield
    for number, channel in enumerate(open_until_now, 1):
        channel.vhost.past.channel_closed(channel.published, channel.confirmed, channel.returned_count)
        connection.broker.events.emit("channel.closed", channel_closed, channel)
        if number % CHANNELS_AT_ONCE == 0:
            yield


def parted(channels: list[Channel]) -> tuple[Blocks, list[ChannelConsumer]]:
    """All unacknowledged deliveries and all consumers. There is no other reference to the blocks: each is
    freed when it is used up; freeing them together in the end would take a while for a million deliveries."""
    blocks: Blocks = []
    consumers: list[ChannelConsumer] = []
    for channel in channels:
        out, there = channel.part()
        blocks += out
        consumers += there
    return blocks, consumers


def removed_at_once(consumers: list[ChannelConsumer]) -> set[Queue]:
    """Remove consumers from the queues where they would be in the way of others; the rest of their end is
    done in pieces. From which queues they were removed."""
    by_queue: dict[Queue, set[Consumer]] = {}
    for consumer in consumers:
        by_queue.setdefault(consumer.queue, set()).add(consumer)
    return {queue for queue, leaving in by_queue.items() if queue.remove_at_once(leaving)}


@contextmanager
def awaited(vhost: VirtualHost | None, consumers: list[ChannelConsumer]) -> Iterator[None]:
    """While messages are requeued in pieces, new consumers of the same queues wait (see `state.wait_while`):
    they would get others before those that were sent earlier."""
    queues = {consumer.queue for consumer in consumers}
    if vhost is None or not queues:
        yield
        return
    for queue in queues:
        vhost.leaving[queue] = vhost.leaving.get(queue, 0) + 1
    try:
        yield
    finally:
        for queue in queues:
            vhost.leaving[queue] -= 1
            if not vhost.leaving[queue]:
                del vhost.leaving[queue]


def give_back(blocks: Blocks, connection: Connection, has_failed: HasFailed) -> Pieces:
    """Of all channels together: messages of one queue may be spread over thousands."""
    if are_too_many(blocks, connection):
        yield from returned.give_back(blocks, no_credit, has_failed)
        return
    for queue, entries in returned.by_queue(entry for block in blocks for entry in block).items():
        queue.requeue(entries, has_failed)


def no_credit(entries: list[Entry]) -> None:
    """For consumers that want no more."""
