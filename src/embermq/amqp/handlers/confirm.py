"""Class confirm: RabbitMQ's publisher confirms."""

from __future__ import annotations

from embermq.amqp.channel.channel import Channel
from embermq.errors import PreconditionFailed
from embermq.wire import methods


def on_confirm_select(channel: Channel, method: methods.ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    channel.confirming = True
    if not method.no_wait:
        channel.send(methods.ConfirmSelectOk())
