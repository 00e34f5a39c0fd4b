"""What becomes of a message whose callback raised."""

from __future__ import annotations

import logging
from typing import Literal

from embermq.client.core.message import Message

log = logging.getLogger("embermq.client")

OnError = Literal["stop", "requeue", "reject"]
ON_ERROR: tuple[OnError, ...] = ("stop", "requeue", "reject")


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
