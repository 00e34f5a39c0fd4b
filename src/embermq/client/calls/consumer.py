"""The state of a consumer as its user sees it, and what becomes of a message if its callback raised."""

from __future__ import annotations

import logging
from typing import Any, Literal

from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.requests import cancel_request
from embermq.client.errors import ClientError
from embermq.wire.methods import BasicConsume

log = logging.getLogger("embermq.client")

OnError = Literal["stop", "requeue", "reject"]
ON_ERROR: tuple[OnError, ...] = ("stop", "requeue", "reject")


class ConsumerHandle:
    """What a user holds of a consumer; the connection holds its inbox."""

    channel: Any
    inbox: Inbox

    @property
    def tag(self) -> str:
        return self.inbox.tag

    @property
    def consume(self) -> BasicConsume:
        """The method that made it."""
        return self.inbox.consume

    @property
    def no_ack(self) -> bool:
        return self.inbox.no_ack

    @property
    def error(self) -> ClientError | None:
        """Why no more will come."""
        return self.inbox.error

    def raise_error(self) -> None:
        """Why no more comes, unless that is as it should be."""
        error = self.inbox.error
        if error is None or self.inbox.ended_well or self.inbox.is_finished():
            return
        if not self.channel.closed_by_user:
            raise error

    def is_consuming(self) -> bool:
        """The broker knows it and has not ended it."""
        core = self.channel.core
        known = self.inbox.error is None and core.error is None
        return known and core.consumers.get(self.tag) is self.inbox

    def cancel_soon(self) -> None:
        """As `cancel`, without waiting for the answer."""
        self.inbox.cancelled = True
        core = self.channel.core
        self.channel.connection.tell(core, cancel_request(core, self.inbox))

    def __repr__(self) -> str:
        state = "cancelled" if self.inbox.is_finished() else "ended" if self.inbox.error else "consuming"
        return f"<{type(self).__name__} '{self.tag}' of queue '{self.consume.queue}', {state}>"


def ack(consumer: ConsumerHandle, batch: list[Message]) -> None:
    """Settle a batch in one go: with one ack for all where that settles nothing else."""
    consumer.channel.core.ack_batch(batch)


def check_on_error(on_error: str) -> None:
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")


def callback_failed(message: Message, on_error: OnError, no_ack: bool) -> bool:
    """The message is given back; whether the consumer goes on."""
    if not no_ack and not message.settled:
        message.nack(requeue=on_error != "reject")
    if on_error == "stop":
        return False
    log.exception("a callback failed, its message is given back (on_error=%r)", on_error)
    return True
