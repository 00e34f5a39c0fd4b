"""A version of AMQP as it is served: by which handlers, on which kind of channel.

A connection has the one that its protocol header names. `amqp.dialects` says which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from embermq.amqp.channel.channel import Channel
from embermq.amqp.reply_text import unknown_frame
from embermq.wire import dialect as wire

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection

Handler = Callable[[Any, Any], None]
OnFrame = Callable[["Connection", int, int, bytearray, int, int], bool]


def on_unknown_frame(
    connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
) -> bool:
    raise unknown_frame(frame_type, buf, pos, stop)


class ServerDialect:
    """The server's half of a version of AMQP."""

    def __init__(
        self,
        dialect: wire.Dialect,
        connection_handlers: Mapping[tuple[int | None, str], Handler],
        channel_handlers: Mapping[str, Handler],
        channel_class: type[Channel] = Channel,
        has_booleans: bool = True,
        on_frame: OnFrame = on_unknown_frame,
        on_lost: Callable[[Connection], None] | None = None,
    ) -> None:
        self.name = dialect.name
        self.version = dialect.version
        self.decode = dialect.decode
        self.method = dialect.method
        self.frame = dialect.frame
        self.on_frame = on_frame  # for types of frames that only some versions have
        self.on_lost = on_lost  # a connection that is lost, before it ends
        self.name_of = dialect.name_of
        self.channel_class = channel_class
        self.has_booleans = has_booleans  # in field tables, and so capabilities
        self.channel_handlers = {
            dialect.named[name].ID: handler
            for name, handler in channel_handlers.items()
            if name in dialect.named
        }
        self.connection_handlers = {
            (state, dialect.named[name].ID): handler
            for (state, name), handler in connection_handlers.items()
            if name in dialect.named
        }


DIALECTS: dict[bytes, ServerDialect] = {}  # by protocol header
