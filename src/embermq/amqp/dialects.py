"""The versions of AMQP that are served."""

from __future__ import annotations

from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.amqp_0_9.frames import on_frame_of_0_9
from embermq.amqp.amqp_0_9.handlers import HANDLERS_0_9
from embermq.amqp.amqp_0_9.resume import keep_channels
from embermq.amqp.connection.dialect import DIALECTS, ServerDialect
from embermq.amqp.handlers.table import CHANNEL_HANDLERS, CONNECTION_HANDLERS
from embermq.wire.dialect import DIALECT_0_8, DIALECT_0_9, DIALECT_0_9_1

AMQP_0_9_1 = ServerDialect(DIALECT_0_9_1, CONNECTION_HANDLERS, CHANNEL_HANDLERS)
AMQP_0_9 = ServerDialect(
    DIALECT_0_9,
    CONNECTION_HANDLERS,
    HANDLERS_0_9,
    Channel09,
    on_frame=on_frame_of_0_9,
    on_lost=keep_channels,
)
AMQP_0_8 = ServerDialect(DIALECT_0_8, CONNECTION_HANDLERS, CHANNEL_HANDLERS, has_booleans=False)

DIALECTS |= {
    DIALECT_0_9_1.header: AMQP_0_9_1,
    DIALECT_0_9.header: AMQP_0_9,
    DIALECT_0_8.header: AMQP_0_8,
    b"AMQP\x01\x01\x09\x01": AMQP_0_8,  # as py-amqplib writes it
}
