"""What a log record knows of a connection besides its text: `log.info("...", extra=about(connection))`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection


def about(connection: Connection, channel: int = 0) -> dict[str, object]:
    told: dict[str, object] = {"connection": connection.name}
    if channel:
        told["channel"] = channel
    if connection.user is not None:
        told["user"] = connection.user.name
    if connection.vhost is not None:
        told["vhost"] = connection.vhost.name
    return told
