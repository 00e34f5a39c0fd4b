"""Channels and connections end, and with them all that lived by them: at once, or in pieces if that is much.

First what was unacknowledged goes back, then the consumers leave, because an auto-delete queue goes with its
last one; then the exclusive queues go. In pieces means that the last words of the connection wait until all
is done, so that whoever has read them finds it done. Whatever it is, it takes part in nothing from the first
moment on, and who asks for an exclusive queue that is about to go does not find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.amqp.session_events import channel_closed, connection_closed, emit_consumer_deleted
from embermq.amqp.settling import are_too_many
from embermq.amqp.tenancy import leave
from embermq.broker import returned
from embermq.broker.events import INTERNAL_USER
from embermq.broker.piecework import Pieces

if TYPE_CHECKING:
    from embermq.amqp.channel import Channel
    from embermq.amqp.connection import Connection
    from embermq.amqp.deliveries import Blocks
    from embermq.amqp.link import Link
    from embermq.broker.level import Entry

CONSUMERS_AT_ONCE = 64
CHANNELS_AT_ONCE = 256
QUEUES_AT_ONCE = 16


def end_channel(channel: Channel) -> None:
    begin(channel.connection, channels_end(channel.connection, [channel]), channel)


def end_connection(connection: Connection) -> None:
    channels = list(connection.channels.values())
    connection.channels.clear()
    connection.confirming_channels.clear()
    user = connection.user
    if user is not None:
        user.channel_count -= len(channels)
    with connection.broker.events.acting(INTERNAL_USER if user is None else user.name):
        begin(connection, connection_ends(connection, channels), connection)


def begin(connection: Connection, pieces: Pieces, about: object) -> None:
    is_held = False

    def done() -> None:
        if is_held:
            connection.release_output()

    pieces = connection.broker.events.acting_in_pieces(pieces)
    if connection.turn.piecework.start(pieces, done, about):
        is_held = connection.stalled = True
        connection.hold_output()


def connection_ends(connection: Connection, channels: list[Channel]) -> Pieces:
    queues, connection.exclusive_queues = connection.exclusive_queues, set()
    announced, connection.announced = connection.announced, False
    if queues and connection.vhost is not None:
        connection.vhost.ending |= queues
    yield from channels_end(connection, channels)
    for number, queue in enumerate(queues, 1):
        queue.vhost.delete_queue(queue)
        if number % QUEUES_AT_ONCE == 0:
            yield
    if announced:
        leave(connection.user, connection.vhost)
        connection.broker.events.emit("connection.closed", connection_closed, connection)


def channels_end(connection: Connection, channels: list[Channel]) -> Pieces:
    open_until_now = [channel for channel in channels if not channel.closing]
    parted = [channel.part() for channel in channels]
    yield from give_back([block for blocks, _ in parted for block in blocks], connection)
    consumers = [consumer for _, consumers in parted for consumer in consumers]
    for number, consumer in enumerate(consumers, 1):
        consumer.queue.remove_consumer(consumer)
        emit_consumer_deleted(consumer)
        if number % CONSUMERS_AT_ONCE == 0:
            yield
    for number, channel in enumerate(open_until_now, 1):
        channel.vhost.past.channel_closed(channel.published, channel.confirmed, channel.returned_count)
        connection.broker.events.emit("channel.closed", channel_closed, channel)
        if number % CHANNELS_AT_ONCE == 0:
            yield


def give_back(blocks: Blocks, link: Link) -> Pieces:
    """Of all channels together: messages of one queue may be spread over thousands."""
    if are_too_many(blocks, link):
        yield from returned.give_back(blocks, no_credit)
        return
    for queue, entries in returned.by_queue(entry for block in blocks for entry in block).items():
        queue.requeue(entries)


def no_credit(entries: list[Entry]) -> None:
    """For consumers that want no more."""
