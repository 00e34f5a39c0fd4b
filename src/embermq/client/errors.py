"""Exceptions of the client; the text of each says what went wrong and what to do about it.

    ClientError
    |-- BadAddress            the URL or an option cannot be understood (also a ValueError)
    |-- ConnectionFailed      no broker could be reached, or none let us in
    |   `-- AuthenticationFailed
    |-- ConnectionLost        the connection broke; what was asked may or may not have been done
    |-- ConnectionClosed      the connection is closed, by us or by the broker, and stays so
    |-- ChannelClosed         the channel is closed, by us or by the broker; open another
    |   |-- AccessRefused       403
    |   |-- NotFound            404
    |   |-- ResourceLocked      405
    |   `-- PreconditionFailed  406
    |-- ConsumerCancelled     the broker ended a consumer, mostly because its queue was deleted
    |-- PublishFailed         messages of a publish (or batch) were nacked or returned
    |-- NotSettled            with strict_acks: a message was settled twice or too late
    |-- RpcFailed             the other side of a remote call failed
    |-- TransactionLost       the connection broke in the middle of a transaction
    `-- Timeout               no answer within the time given (also a TimeoutError)

Those that come from the broker carry its `reply_code`, `reply_text` and `method` (the name of the method that
it refused, such as "queue.declare").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from embermq.wire.methods import METHODS

if TYPE_CHECKING:
    from embermq.client.core.message import Message


class ClientError(Exception):
    """The root of everything that the client raises on purpose."""


class BadAddress(ClientError, ValueError):
    """A URL or an option that cannot be understood."""


class Refused(ClientError):
    """Something that the broker refused, in its own words."""

    advice: ClassVar[str] = ""

    def __init__(
        self, text: str, *, reply_code: int = 0, reply_text: str = "", method: str | None = None
    ) -> None:
        super().__init__(text)
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.method = method


class ConnectionFailed(Refused):
    """No broker could be reached, or none let us in."""


class AuthenticationFailed(ConnectionFailed):
    """The broker knows no such user with this password, or the user may not use the virtual host."""


class ConnectionLost(ClientError):
    """The connection broke before the answer came: what was asked may or may not have been done."""


class ConnectionClosed(Refused):
    """The connection is closed and stays closed."""


class ChannelClosed(Refused):
    """The channel is closed and stays closed; the connection goes on, open another channel."""


class AccessRefused(ChannelClosed):
    """403: the user lacks the permission, or the name is reserved."""

    advice = "ask for the permission (rabbitmqctl set_permissions) or use another name"


class NotFound(ChannelClosed):
    """404: there is no such queue or exchange."""

    advice = "declare it first, or look whether the virtual host is the right one"


class ResourceLocked(ChannelClosed):
    """405: the queue is exclusive to another connection."""

    advice = "use the connection that declared it, or a queue of another name"


class PreconditionFailed(ChannelClosed):
    """406: it exists with other properties, is in use, or a delivery tag is unknown."""

    advice = ""  # see ADVICE_406


class ConsumerCancelled(ClientError):
    """The broker ended the consumer, mostly because its queue was deleted."""


class PublishFailed(ClientError):
    """Messages that the broker did not take: `nacked` of them refused, `returned` not routed anywhere."""

    def __init__(self, nacked: int, returned: list[Message]) -> None:
        parts = []
        if nacked:
            parts.append(f"{nacked} refused by the broker (a full queue, or a fault of the broker's)")
        if returned:
            first = returned[0]
            parts.append(
                f"{len(returned)} returned because no queue is bound for them, the first sent to exchange "
                f"'{first.exchange}' with routing key '{first.routing_key}'"
            )
        super().__init__("messages not published: " + "; ".join(parts))
        self.nacked = nacked
        self.returned = returned


class NotSettled(ClientError):
    """With `strict_acks`: the message was settled before, needs no ack, or belongs to a lost connection."""


class RpcFailed(ClientError):
    """The function at the other side raised; the text is what it said."""


class TransactionLost(ClientError):
    """The connection broke in the middle of a transaction: nothing of it was done, begin it anew."""


class Timeout(ClientError, TimeoutError):
    """No answer within the time given."""


PRECONDITION_FAILED = 406
BY_REPLY_CODE: dict[int, type[ChannelClosed]] = {
    403: AccessRefused,
    404: NotFound,
    405: ResourceLocked,
    406: PreconditionFailed,
}


# 406 means many things: what helps depends on what was asked.
ADVICE_406 = {
    "exchange.declare": "declare it as it is, or passive=True, or delete it first",
    "queue.declare": "declare it as it is, or passive=True, or delete it first",
    "exchange.delete": "it is in use: delete what is bound to it first, or leave out if_unused",
    "queue.delete": "it is in use or not empty: leave out if_unused and if_empty to delete it all the same",
    "basic.ack": "settle each delivery only once, on the channel that it came from",
    "basic.nack": "settle each delivery only once, on the channel that it came from",
    "basic.reject": "settle each delivery only once, on the channel that it came from",
    "tx.select": "a channel has either confirms or transactions: open one with confirms=False",
    "confirm.select": "a channel has either confirms or transactions: open one with confirms=False",
}


def method_name(class_id: int, method_id: int) -> str | None:
    """ "queue.declare" for 50 and 10; None for what is no method."""
    found = METHODS.get(class_id << 16 | method_id)
    return None if found is None else found.NAME


def channel_closed(reply_code: int, reply_text: str, class_id: int = 0, method_id: int = 0) -> ChannelClosed:
    """The error for a channel.close of the broker."""
    kind = BY_REPLY_CODE.get(reply_code, ChannelClosed)
    method = method_name(class_id, method_id)
    text = f"the broker closed the channel: {reply_code} {reply_text}"
    if method is not None:
        text += f" (answer to {method})"
    advice = ADVICE_406.get(method or "", "") if reply_code == PRECONDITION_FAILED else kind.advice
    if advice:
        text += f"; {advice}"
    return kind(text, reply_code=reply_code, reply_text=reply_text, method=method)


def connection_closed(
    reply_code: int, reply_text: str, class_id: int = 0, method_id: int = 0
) -> ConnectionClosed:
    """The error for a connection.close of the broker."""
    method = method_name(class_id, method_id)
    text = f"the broker closed the connection: {reply_code} {reply_text}"
    if method is not None:
        text += f" (answer to {method})"
    return ConnectionClosed(text, reply_code=reply_code, reply_text=reply_text, method=method)
