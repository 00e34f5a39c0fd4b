"""Frames that are not for an open channel: the handshake, heartbeats, closes, and channels being opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.amqp.connection.state import CLOSING, OPEN
from embermq.amqp.connection.vhost_admission import require_channel_room
from embermq.amqp.events import channel_created
from embermq.amqp.reply_text import METHOD_EXPECTED, octets, unexpected, unknown_frame
from embermq.errors import ChannelFault, FrameError, NotAllowed, UnexpectedFrame
from embermq.wire import methods
from embermq.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from embermq.wire.kernel import load_u32

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Channel
    from embermq.amqp.connection.connection import Connection

METHOD_ID_BYTES = 4


def on_control_frame(
    connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
) -> bool:
    """False: it is too early for that, and it must be read again in another turn."""
    if frame_type == FRAME_HEARTBEAT:
        if number != 0 or stop != pos:
            raise FrameError("a heartbeat is an empty frame on channel 0")
    elif frame_type not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY):
        return connection.dialect.on_frame(connection, frame_type, number, buf, pos, stop)
    elif connection.state == CLOSING:
        on_frame_while_closing(connection, frame_type, number, buf, pos, stop)
    elif frame_type != FRAME_METHOD:
        on_stray_content(connection, frame_type, number, buf, pos, stop)
    elif stop - pos < METHOD_ID_BYTES:
        raise unknown_frame(frame_type, buf, pos, stop)
    else:
        on_control_method(connection, number, buf, pos, stop)
    return True


def on_stray_content(
    connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
) -> None:
    if connection.state == OPEN and number in connection.channels:
        return  # the rest of a message on a channel that is being closed
    if number == 0 or connection.state != OPEN:
        raise UnexpectedFrame(f"type {frame_type}, all octets = {octets(buf, pos, stop)}")
    raise unexpected(METHOD_EXPECTED)


def on_control_method(connection: Connection, number: int, buf: bytearray, pos: int, stop: int) -> None:
    connection.current_method = load_u32(buf, pos)
    if number == 0:
        on_connection_method(connection, buf, pos, stop)
    elif connection.state != OPEN:
        connection.current_method = 0
        raise UnexpectedFrame(f"type 1, all octets = {octets(buf, pos, stop)}")
    elif number in connection.channels:
        on_method_while_channel_closing(connection.channels[number], buf, pos)
    else:
        open_channel(connection, number, buf, pos, stop)


def on_connection_method(connection: Connection, buf: bytearray, pos: int, stop: int) -> None:
    method = connection.dialect.decode(buf, pos, stop)
    handlers = connection.dialect.connection_handlers
    handler = handlers.get((connection.state, method.ID)) or handlers.get((None, method.ID))
    if handler is None:
        state = "running" if connection.state == OPEN else "opening"
        raise ChannelFault(f"unexpected method in connection state {state}")
    handler(connection, method)


def on_frame_while_closing(
    connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
) -> None:
    """Everything is discarded but the two methods that end the conversation."""
    if frame_type != FRAME_METHOD or number != 0 or stop - pos < METHOD_ID_BYTES:
        return
    name = connection.dialect.name_of(load_u32(buf, pos))
    if name == methods.ConnectionClose.NAME:
        connection.send(0, methods.ConnectionCloseOk())
    elif name == methods.ConnectionCloseOk.NAME:
        connection.end()


def on_method_while_channel_closing(channel: Channel, buf: bytearray, pos: int) -> None:
    method_id = load_u32(buf, pos)
    if method_id == methods.ChannelCloseOk.ID:
        channel.connection.forget_channel(channel)
    elif method_id == methods.ChannelClose.ID:
        channel.send(methods.ChannelCloseOk())


def open_channel(connection: Connection, number: int, buf: bytearray, pos: int, stop: int) -> None:
    method = connection.dialect.decode(buf, pos, stop)
    if method.NAME != methods.ChannelOpen.NAME:
        raise ChannelFault("expected 'channel.open'")
    # As RabbitMQ reads it: so many at a time, whatever their numbers. Clients that take the next higher one
    # each time (aiormq) come past every limit with two channels open.
    count = len(connection.channels)
    if connection.channel_max and count >= connection.channel_max:
        raise NotAllowed(
            f"number of channels opened ({count}) has reached the negotiated "
            f"channel_max ({connection.channel_max})",
            blame=0,
        )
    assert connection.vhost is not None and connection.user is not None
    require_channel_room(connection.user)
    channel = connection.dialect.channel_class(
        connection, number, connection.vhost, connection.user, connection.limits.body_bytes_max
    )
    connection.channels[number] = channel
    connection.vhost.past.channels_opened += 1
    connection.user.channel_count += 1
    channel.send(channel.open_ok())
    with connection.broker.events.acting(connection.user.name):
        connection.broker.events.emit("channel.created", channel_created, channel)
