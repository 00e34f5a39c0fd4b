"""References: bodies that a client sends in pieces (message.open, append, close) and refers to.

A message that refers to one is published when the reference is closed. A checkpoint keeps what has come so
far, so that the client may go on there on another connection (message.resume); it is in memory, and gone
after a while or with the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.errors import NotAllowed, PreconditionFailed
from embermq.wire import methods_0_9

if TYPE_CHECKING:
    from embermq.amqp.amqp_0_9.channel import Channel09

OPEN_MAX = 256  # references of one channel
NAME_BYTES_MAX = 1024


class Reference:
    """What has been appended, and the transfers that wait for the rest."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.transfers: list[tuple[int, methods_0_9.MessageTransfer]] = []


def open_reference(channel: Channel09, name: bytes, data: bytes = b"") -> None:
    if name in channel.references:
        raise NotAllowed(f"reference {name!r} is open already", scope="channel")
    if len(name) > NAME_BYTES_MAX or len(channel.references) >= OPEN_MAX:
        raise PreconditionFailed(
            f"a channel may have {OPEN_MAX} references with names of up to {NAME_BYTES_MAX} octets"
        )
    channel.references[name] = Reference(data)


def reference(channel: Channel09, name: bytes) -> Reference:
    found = channel.references.get(name)
    if found is None:
        raise NotAllowed(f"reference {name[:64]!r} is not open", scope="channel")
    return found


def append(channel: Channel09, name: bytes, data: bytes) -> None:
    target = reference(channel, name)
    size = sum(len(other.data) for other in channel.references.values()) + len(data)
    if size > channel.body_max:
        raise PreconditionFailed(
            f"references of {size} bytes are larger than configured max size {channel.body_max}"
        )
    target.data += data
