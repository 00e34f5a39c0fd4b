"""The handlers of what 0-9 has besides 0-9-1, by the names of the methods."""

from __future__ import annotations

from embermq.amqp.amqp_0_9 import message
from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.connection.dialect import Handler
from embermq.amqp.handlers.table import CHANNEL_HANDLERS
from embermq.errors import ChannelFault, CommandInvalid
from embermq.wire import methods_0_9
from embermq.wire.methods import Method


def on_channel_ping(channel: Channel09, method: Method) -> None:
    channel.send(methods_0_9.ChannelOk())


def on_channel_ok(channel: Channel09, method: Method) -> None:
    """An answer to a ping of ours: there is none."""


def on_channel_resume(channel: Channel09, method: Method) -> None:
    raise ChannelFault("channel.resume is the first request on a channel, and instead of channel.open")


def requested(handler: Handler) -> Handler:
    """For methods that are requests only."""

    def handle(channel: Channel09, method: Method) -> None:
        if not channel.pending:
            raise CommandInvalid(f"{method.NAME} belongs in a request frame")
        handler(channel, method)

    return handle


HANDLERS_0_9: dict[str, Handler] = {
    **CHANNEL_HANDLERS,
    methods_0_9.ChannelPing.NAME: on_channel_ping,
    methods_0_9.ChannelPong.NAME: on_channel_ping,
    methods_0_9.ChannelOk.NAME: on_channel_ok,
    methods_0_9.ChannelResume.NAME: on_channel_resume,
    methods_0_9.MessageTransfer.NAME: requested(message.on_transfer),
    methods_0_9.MessageConsume.NAME: requested(message.on_consume),
    methods_0_9.MessageCancel.NAME: requested(message.on_cancel),
    methods_0_9.MessageGet.NAME: requested(message.on_get),
    methods_0_9.MessageRecover.NAME: requested(message.on_recover),
    methods_0_9.MessageQos.NAME: requested(message.on_qos),
    methods_0_9.MessageOpen.NAME: requested(message.on_open),
    methods_0_9.MessageAppend.NAME: requested(message.on_append),
    methods_0_9.MessageClose.NAME: requested(message.on_close),
    methods_0_9.MessageCheckpoint.NAME: requested(message.on_checkpoint),
    methods_0_9.MessageResume.NAME: requested(message.on_resume),
}
