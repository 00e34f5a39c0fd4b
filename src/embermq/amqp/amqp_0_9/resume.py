"""Channels that outlive a lost connection (000, 4.4.2), to be resumed on another one.

A channel that was used with request frames is kept for a while, with its consumers, which get nothing
meanwhile, and with what is unacknowledged. channel.resume, as the first request on a channel of a new
connection, continues it: the client sends again the requests that had no response, and is sent again the
messages that it has not answered.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.amqp_0_9.consumer import transfer
from embermq.amqp.amqp_0_9.requests import REQUEST_HEAD, Response
from embermq.amqp.channel.teardown import end_channel
from embermq.amqp.connection.vhost_admission import require_channel_room
from embermq.errors import NotFound
from embermq.wire import methods_0_9
from embermq.wire.dialect import DIALECT_0_9

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection


def keep_channels(connection: Connection) -> None:
    """The connection is lost: keep those of its channels that can be resumed."""
    for channel in list(connection.channels.values()):
        if isinstance(channel, Channel09) and channel.is_resumable and not channel.closing:
            keep(channel)


def keep(channel: Channel09) -> None:
    channel.connection.forget_channel(channel)
    channel.pause()
    interrupted = channel.connection.broker.interrupted
    interrupted.put(channel.user.name, channel.channel_id, channel, partial(end_channel, channel, False))


def resume_channel(connection: Connection, number: int, buf: bytearray, pos: int, stop: int) -> None:
    request_id, _ = REQUEST_HEAD.unpack_from(buf, pos)
    method = DIALECT_0_9.decode(buf, pos + REQUEST_HEAD.size, stop)
    assert isinstance(method, methods_0_9.ChannelResume)
    assert connection.user is not None
    require_channel_room(connection.user)
    channel = interrupted_channel(connection, connection.user.name, method.channel_id)
    if channel is None or channel.vhost is not connection.vhost:
        raise NotFound("no such channel to resume", scope="connection")
    channel.connection, channel.number = connection, number
    channel.change_user(connection.user)
    connection.channels[number] = channel
    connection.user.channel_count += 1
    for consumer in channel.consumers.values():
        consumer.connection_number = connection.number
        consumer.block_bytes_max = connection.frame_max
    answer = Response(0, request_id, 0, methods_0_9.ChannelOk().encode())  # not one of the channel's own
    connection.out.write(answer.frame(number))
    connection.touch()
    send_again(channel)
    channel.resume()


def interrupted_channel(connection: Connection, user: str, channel_id: bytes) -> Channel09 | None:
    """One that was lost, or is about to be: the client may be back before its loss is noticed here."""
    interrupted = connection.broker.interrupted
    channel = interrupted.resumable.get(channel_id)
    if channel is not None and channel.user.name == user and not channel.closing and not channel.is_kept:
        keep(channel)
    found: Channel09 | None = interrupted.take(user, channel_id)
    return found


def send_again(channel: Channel09) -> None:
    """What the client has not answered, under the same numbers."""
    outgoing = channel.outgoing
    unanswered, outgoing.unanswered = outgoing.unanswered, {}
    last_id = outgoing.last_id
    for delivery in unanswered.values():
        entry = channel.unacked.get(delivery.tag)
        if entry is not None:
            outgoing.last_id = delivery.first_id - 1
            transfer(channel, entry.message, delivery.destination, True, delivery.tag, delivery.room)
    outgoing.last_id = max(last_id, outgoing.last_id)
