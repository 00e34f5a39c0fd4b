"""Frames that only 0-9 has: trace, out-of-band, request and response."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.amqp_0_9.requests import REQUEST_HEAD, RESPONSE_HEAD
from embermq.amqp.amqp_0_9.resume import resume_channel
from embermq.amqp.connection.state import CLOSING, OPEN
from embermq.amqp.handlers.basic import reject
from embermq.amqp.reply_text import octets, unknown_frame
from embermq.errors import ChannelFault, CommandInvalid, FrameError, NotImplementedYet
from embermq.wire import methods_0_9
from embermq.wire.constants import (
    FRAME_OOB_BODY,
    FRAME_OOB_HEADER,
    FRAME_OOB_METHOD,
    FRAME_REQUEST,
    FRAME_RESPONSE,
    FRAME_TRACE,
)
from embermq.wire.dialect import DIALECT_0_9, METHOD_ID_BYTES
from embermq.wire.kernel import load_u32
from embermq.wire.primitive import misfit

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection

log = logging.getLogger("embermq.connection")


def on_frame_of_0_9(
    connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
) -> bool:
    """False: it is too early for that, and it must be read again in another turn."""
    if frame_type == FRAME_TRACE:
        on_trace(connection, number, buf, pos, stop)
    elif frame_type in (FRAME_OOB_METHOD, FRAME_OOB_HEADER, FRAME_OOB_BODY):
        raise NotImplementedYet("there is no out-of-band transport: channel.open can agree on none")
    elif frame_type not in (FRAME_REQUEST, FRAME_RESPONSE):
        raise unknown_frame(frame_type, buf, pos, stop)
    elif connection.state == OPEN:
        channel = connection.channels.get(number)
        if channel is None and frame_type == FRAME_REQUEST and is_resume(buf, pos, stop):
            resume_channel(connection, number, buf, pos, stop)
        elif channel is None:
            raise ChannelFault("expected 'channel.open'")
        elif not channel.closing:
            assert isinstance(channel, Channel09)
            take = on_request if frame_type == FRAME_REQUEST else on_response
            return take(connection, channel, buf, pos, stop)
    elif connection.state != CLOSING:
        raise ChannelFault("unexpected method in connection state opening")
    return True


def on_trace(connection: Connection, number: int, buf: bytearray, pos: int, stop: int) -> None:
    """For the log, in a virtual host that is traced; otherwise discarded."""
    if number != 0:
        raise FrameError("a trace frame belongs to channel 0")
    if connection.vhost is not None and connection.vhost.trace is not None:
        text = "%s: trace frame: %s"
        log.info(text, connection.name, octets(buf, pos, stop), extra=connection.log_extra())


def is_resume(buf: bytearray, pos: int, stop: int) -> bool:
    at = pos + REQUEST_HEAD.size
    return stop >= at + METHOD_ID_BYTES and load_u32(buf, at) == methods_0_9.ChannelResume.ID


def on_request(connection: Connection, channel: Channel09, buf: bytearray, pos: int, stop: int) -> bool:
    at = pos + REQUEST_HEAD.size
    if at + METHOD_ID_BYTES > stop:
        raise misfit("request frame", at + METHOD_ID_BYTES, stop)
    request_id, response_mark = REQUEST_HEAD.unpack_from(buf, pos)
    if channel.expects:
        channel.interrupt_content()
    if not channel.incoming.is_new(request_id, response_mark):
        for response in channel.incoming.answers(request_id):
            connection.out.write(response.frame(channel.number))
            connection.touch()
        return True
    connection.current_method = load_u32(buf, at)
    method = DIALECT_0_9.decode(buf, at, stop)
    if not method.RESPONSES:
        raise CommandInvalid(f"{method.NAME} has no response: it is no request")
    if hasattr(method, "no_wait"):
        method.no_wait = False
    channel.pending.append((request_id, method.RESPONSES))
    if not connection.on_method(channel, method):
        channel.pending.pop()
        return False
    channel.incoming.last_id = request_id
    connection.broker.interrupted.resumable.setdefault(channel.channel_id, channel)
    return True


def on_response(connection: Connection, channel: Channel09, buf: bytearray, pos: int, stop: int) -> bool:
    """The client has dealt with a message, or with several."""
    at = pos + RESPONSE_HEAD.size
    if at + METHOD_ID_BYTES > stop:
        raise misfit("response frame", at + METHOD_ID_BYTES, stop)
    if channel.expects:
        channel.interrupt_content()
    connection.current_method = load_u32(buf, at)
    method = DIALECT_0_9.decode(buf, at, stop)
    tags = channel.outgoing.take_answered(*RESPONSE_HEAD.unpack_from(buf, pos))
    if isinstance(method, methods_0_9.MessageReject):
        for tag in tags:
            reject(channel, channel.take_blocks(tag, False), requeue=False)
    elif isinstance(method, methods_0_9.MessageOk):
        for tag in tags:
            channel.on_ack(tag, False)
    return True
