"""The versions of AMQP that are served: by which handlers, on which kind of channel.

A connection has the one that its protocol header names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from embermq.amqp.channel.channel import Channel
from embermq.amqp.handlers.table import CHANNEL_HANDLERS, CONNECTION_HANDLERS, Handler
from embermq.amqp.reply_text import unknown_frame
from embermq.wire import dialect as wire

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection


class ServerDialect:
    """The server's half of a version of AMQP."""

    def __init__(
        self,
        dialect: wire.Dialect,
        channel_class: type[Channel] = Channel,
        channel_handlers: Mapping[str, Handler] = CHANNEL_HANDLERS,
        has_booleans: bool = True,
    ) -> None:
        self.name = dialect.name
        self.version = dialect.version
        self.decode = dialect.decode
        self.frame = dialect.frame
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
            for (state, name), handler in CONNECTION_HANDLERS.items()
            if name in dialect.named
        }

    def on_frame(
        self, connection: Connection, frame_type: int, number: int, buf: bytearray, pos: int, stop: int
    ) -> None:
        """A frame of a type that only some versions have."""
        raise unknown_frame(frame_type, buf, pos, stop)


AMQP_0_9_1 = ServerDialect(wire.DIALECT_0_9_1)
AMQP_0_9 = ServerDialect(wire.DIALECT_0_9)
AMQP_0_8 = ServerDialect(wire.DIALECT_0_8, has_booleans=False)

BY_HEADER = {
    wire.DIALECT_0_9_1.header: AMQP_0_9_1,
    wire.DIALECT_0_9.header: AMQP_0_9,
    wire.DIALECT_0_8.header: AMQP_0_8,
    b"AMQP\x01\x01\x09\x01": AMQP_0_8,  # as py-amqplib writes it
}
