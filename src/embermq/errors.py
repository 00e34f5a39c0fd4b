"""The one exception type of the project.

Anything may raise an `AMQPError`; only the connection (amqp.connection) catches it and turns it into
`channel.close` or `connection.close`. The reply code decides the scope: 3xx and most 4xx end the channel,
5xx, 320 and 402 end the connection (AMQP 0-9-1, 1.2). The text follows RabbitMQ's wording, because clients
and people match on it: "NOT_FOUND - no queue 'orders' in vhost '/'".

    AMQPError
    |-- ContentTooLarge     311  channel
    |-- NoRoute             312  channel   (only ever sent in basic.return)
    |-- NoConsumers         313  channel   (only ever sent in basic.return)
    |-- ConnectionForced    320  connection
    |-- InvalidPath         402  connection
    |-- AccessRefused       403  channel   (connection during the handshake)
    |-- NotFound            404  channel
    |-- ResourceLocked      405  channel
    |-- PreconditionFailed  406  channel
    |-- FrameError          501  connection
    |-- SyntaxFault         502  connection
    |-- CommandInvalid      503  connection
    |-- ChannelFault        504  connection
    |-- UnexpectedFrame     505  connection
    |-- ResourceFault       506  connection
    |-- NotAllowed          530  connection
    |-- NotImplementedYet   540  connection
    `-- InternalFault       541  connection
"""

from __future__ import annotations

from typing import ClassVar, Literal

Scope = Literal["channel", "connection"]


class AMQPError(Exception):
    """A refusal with an AMQP reply code; `scope` says what it closes."""

    reply_code: ClassVar[int] = 541
    label: ClassVar[str] = "INTERNAL_ERROR"
    default_scope: ClassVar[Scope] = "connection"

    def __init__(self, detail: str, *, scope: Scope | None = None, blame: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.blame = blame  # id of the method at fault; None: the method being handled
        self.scope: Scope = scope or self.default_scope

    @property
    def reply_text(self) -> str:
        """The text for the wire, e.g. "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix"."""
        return f"{self.label} - {self.detail}" if self.detail else self.label

    def __str__(self) -> str:
        return f"{self.reply_code} {self.reply_text}"


class ContentTooLarge(AMQPError):
    reply_code, label, default_scope = 311, "CONTENT_TOO_LARGE", "channel"


class NoRoute(AMQPError):
    reply_code, label, default_scope = 312, "NO_ROUTE", "channel"


class NoConsumers(AMQPError):
    reply_code, label, default_scope = 313, "NO_CONSUMERS", "channel"


class ConnectionForced(AMQPError):
    reply_code, label = 320, "CONNECTION_FORCED"


class InvalidPath(AMQPError):
    reply_code, label = 402, "INVALID_PATH"


class AccessRefused(AMQPError):
    reply_code, label, default_scope = 403, "ACCESS_REFUSED", "channel"


class NotFound(AMQPError):
    reply_code, label, default_scope = 404, "NOT_FOUND", "channel"


class ResourceLocked(AMQPError):
    reply_code, label, default_scope = 405, "RESOURCE_LOCKED", "channel"


class PreconditionFailed(AMQPError):
    reply_code, label, default_scope = 406, "PRECONDITION_FAILED", "channel"


class FrameError(AMQPError):
    reply_code, label = 501, "FRAME_ERROR"


class SyntaxFault(AMQPError):
    reply_code, label = 502, "SYNTAX_ERROR"


class CommandInvalid(AMQPError):
    reply_code, label = 503, "COMMAND_INVALID"


class ChannelFault(AMQPError):
    reply_code, label = 504, "CHANNEL_ERROR"


class UnexpectedFrame(AMQPError):
    reply_code, label = 505, "UNEXPECTED_FRAME"


class ResourceFault(AMQPError):
    reply_code, label = 506, "RESOURCE_ERROR"


class NotAllowed(AMQPError):
    reply_code, label = 530, "NOT_ALLOWED"


class NotImplementedYet(AMQPError):
    reply_code, label = 540, "NOT_IMPLEMENTED"


class InternalFault(AMQPError):
    reply_code, label = 541, "INTERNAL_ERROR"
