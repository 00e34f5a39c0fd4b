"""Errors during the handshake: answered slowly, and mostly by closing the socket only.

Only once the client has agreed on a tune, or announced that it understands a refused login, is it told; any
other error is a pause and a closed socket (002, 2.2.4 and 4.10.2). After login there is no pause.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embermq.amqp.connection.state import CHECKING, OPENING
from embermq.amqp.events import emit_access_refused
from embermq.amqp.reply_text import close_method
from embermq.errors import AccessRefused, AMQPError, NotAllowed

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection

log = logging.getLogger("embermq.connection")


def refuse_handshake(connection: Connection, error: AMQPError, blame: int) -> None:
    if connection.state != CHECKING:  # of a refused login there is a line with the reason
        log.warning("%s: %s", connection.name, error, extra=connection.log_extra())
    tell = connection.state == OPENING
    if connection.user is not None and isinstance(error, NotAllowed):
        emit_access_refused(connection, 0, error)
    if isinstance(error, AccessRefused):
        tell = bool(connection.capabilities.get("authentication_failure_close"))
        blame = 0
    elif connection.user is None:
        connection.broker.authenticator.refused(connection.peer_address)
    pause_s = connection.limits.refusal_pause_s if connection.user is None else 0.0
    if not tell:
        connection.end(pause_s or connection.limits.refusal_pause_s)
        return
    close = close_method(error, blame)

    def say() -> None:
        connection.send(0, close)
        connection.transport.close()

    connection.lost()  # nothing more is heard from there
    if pause_s:
        connection.transport.later(pause_s, say)
    else:
        say()
