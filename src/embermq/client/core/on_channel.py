"""Handlers of what the broker sends on a channel besides deliveries and confirms."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from embermq.client.errors import ChannelClosed, ConsumerCancelled, channel_closed
from embermq.errors import UnexpectedFrame
from embermq.wire.frame import method_frame
from embermq.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    Method,
)

if TYPE_CHECKING:
    from embermq.client.core.channel import ChannelCore
    from embermq.client.core.engine import Engine


def on_answer(channel: ChannelCore, method: Method) -> None:
    request = channel.answered_by(method)
    if request is None:
        raise UnexpectedFrame(f"{method.NAME} answers nothing that was asked")
    channel.requests.remove(request)
    request.answered(method)


def on_nack(engine: Engine, channel: ChannelCore, method: Method) -> None:
    nack = cast(BasicNack, method)
    channel.unconfirmed.confirm(nack.delivery_tag, nack.multiple, False)


def on_content_method(engine: Engine, channel: ChannelCore, method: Method) -> None:
    if isinstance(method, BasicGetOk) and channel.answered_by(method) is None:
        raise UnexpectedFrame(f"{method.NAME} answers nothing that was asked")
    channel.on_content_method(method)


def on_close(engine: Engine, channel: ChannelCore, method: Method) -> None:
    close = cast(ChannelClose, method)
    engine.buffer.write(method_frame(channel.number, ChannelCloseOk()))
    error = channel_closed(close.reply_code, close.reply_text, close.class_id, close.method_id)
    engine.drop_channel(channel, error)
    engine.happened("channel_closed", channel, error)


def on_close_ok(engine: Engine, channel: ChannelCore, method: Method) -> None:
    if not channel.closing:
        raise UnexpectedFrame(f"{method.NAME} answers nothing that was asked")
    # What was asked just before may go without its answer: RabbitMQ forgets a basic.cancel that is under way.
    engine.drop_channel(channel, ChannelClosed("the channel was closed by its user: open another"))


def on_flow(engine: Engine, channel: ChannelCore, method: Method) -> None:
    channel.flow_active = cast(ChannelFlow, method).active
    engine.buffer.write(method_frame(channel.number, ChannelFlowOk(channel.flow_active)))
    engine.happened("flow", channel, channel.flow_active)


def on_cancel(engine: Engine, channel: ChannelCore, method: Method) -> None:
    """The broker ends a consumer: its queue is gone, or has moved."""
    cancel = cast(BasicCancel, method)
    inbox = channel.consumers.pop(cancel.consumer_tag, None)
    if not cancel.no_wait:
        engine.buffer.write(method_frame(channel.number, BasicCancelOk(cancel.consumer_tag)))
    if inbox is not None:
        channel.last_consumer_bytes = b""
        error = ConsumerCancelled(
            f"the broker cancelled the consumer '{inbox.tag}' of queue '{inbox.consume.queue}': the queue "
            "was deleted or became unavailable; declare it and consume again"
        )
        inbox.end(error)
        engine.happened("cancelled", inbox, error)


CHANNEL_HANDLERS = {
    BasicNack.ID: on_nack,
    BasicGetOk.ID: on_content_method,
    BasicReturn.ID: on_content_method,
    BasicCancel.ID: on_cancel,
    ChannelClose.ID: on_close,
    ChannelCloseOk.ID: on_close_ok,
    ChannelFlow.ID: on_flow,
}
