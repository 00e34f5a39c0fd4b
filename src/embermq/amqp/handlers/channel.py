"""Class channel: open, flow, close; and class access, which 0-9-1 dropped but old clients still send."""

from __future__ import annotations

from embermq.amqp.channel.channel import Channel
from embermq.errors import ChannelFault
from embermq.wire import methods


def on_channel_open(channel: Channel, method: methods.ChannelOpen) -> None:
    raise ChannelFault("second 'channel.open' seen")


def on_channel_flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """The client stops or restarts deliveries to this channel."""
    channel.send(methods.ChannelFlowOk(method.active))
    channel.set_flow(method.active)


def on_channel_close(channel: Channel, method: methods.ChannelClose) -> None:
    channel.put_confirms()
    channel.shut(in_order=True)
    channel.send(methods.ChannelCloseOk())
    channel.connection.forget_channel(channel)


def on_access_request(channel: Channel, method: methods.AccessRequest) -> None:
    channel.send(methods.AccessRequestOk(1))
