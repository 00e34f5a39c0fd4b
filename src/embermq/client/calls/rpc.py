"""Remote calls over direct reply-to: what both shells share."""

from __future__ import annotations

import secrets
from itertools import count

from embermq.client.core.message import Message
from embermq.client.errors import RpcFailed
from embermq.wire.properties import Properties

REPLY_TO = "amq.rabbitmq.reply-to"
FAILED = "embermq.rpc.failed"  # the type property of an answer that is the text of an error


class Correlation:
    """Makes ids that no other client makes."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    def next_id(self) -> str:
        return f"{self._prefix}.{next(self._numbers)}"


def call_properties(properties: Properties | None, correlation_id: str) -> Properties:
    """The user's properties with ours; the user's own object stays as it is."""
    copy = Properties()
    for name in Properties.__slots__:
        setattr(copy, name, getattr(properties, name, None))
    copy.reply_to = REPLY_TO
    copy.correlation_id = correlation_id
    return copy


def answer_properties(call: Message, *, failed: bool) -> Properties:
    return Properties(
        correlation_id=call.properties.correlation_id, type=FAILED if failed else None, delivery_mode=1
    )


def checked(answer: Message) -> Message:
    if answer.properties.type == FAILED:
        raise RpcFailed(answer.body.decode("utf-8", "replace"))
    return answer
