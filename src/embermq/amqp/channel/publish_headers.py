"""Special headers of published messages: CC and BCC, direct reply-to, delays.

CC and BCC are lists of further routing keys in the headers; BCC is removed before the message is stored.

Direct reply-to: a consumer on the name `amq.rabbitmq.reply-to` gets a queue of its own with a name that
cannot be guessed; that name takes the place of `amq.rabbitmq.reply-to` in the reply-to of everything that the
channel publishes, and replies are published to it through the default exchange. The queue goes with its
consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from embermq.amqp.channel.publish_checks import BASIC_PUBLISH, REPLY_TO, check_reply_to
from embermq.broker.delayed.headers import due_ms, with_delay_spent
from embermq.broker.exchange.exchange import Route
from embermq.broker.exchange.types import BY_MESSAGE
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import rewritten, typed_headers
from embermq.errors import PreconditionFailed
from embermq.wire.content import ABSENT, BCC, CC, DELAY, DELIVER_AT, Peek
from embermq.wire.table import decode_table, decode_typed

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Channel
    from embermq.broker.queue.queue import Queue

UNKNOWN_QUEUES: tuple[Queue, ...] = ()  # stands for queues that are not all known
REPLY_TO_PREFIX = REPLY_TO + "."
# RabbitMQ's words for the types of field values.
TYPE_NAMES = {
    "b": "byte", "B": "unsignedbyte", "s": "short", "u": "unsignedshort", "I": "signedint",
    "i": "unsignedint", "l": "long", "L": "long", "S": "longstr", "t": "bool", "V": "void",
    "f": "float", "d": "double", "T": "timestamp", "F": "table", "A": "array", "x": "binary", "D": "decimal",
}  # fmt: skip


class SpecialHeaders(NamedTuple):
    keys: tuple[str, ...]  # further routing keys
    has_bcc: bool
    reply_to: str | None  # what to write into the property instead
    due_ms: int  # not to be routed before; 0: at once


def special_headers_in(
    buf: bytearray, peek: Peek, reply_queue: Queue | None, now_ms: int
) -> SpecialHeaders | None:
    """None, nearly always: there are none."""
    keys: list[str] = []
    has_bcc = False
    due = found = 0
    reply_to = None
    if peek.reply_to_at != ABSENT and check_reply_to(buf, peek, reply_queue):
        assert reply_queue is not None
        reply_to = reply_queue.name
    if peek.headers_at != ABSENT:
        found = peek.special.found
    if found == 0 and reply_to is None:
        return None
    if found:
        special = peek.special
        has_bcc = special.has(BCC)
        if has_bcc or special.has(CC):
            fields, _ = decode_typed(buf, peek.headers_at, len(buf))
            keys = copy_keys(fields)
        if special.has(DELAY) or special.has(DELIVER_AT):
            due = due_in(buf, peek.headers_at, now_ms)
        if not keys and not has_bcc and reply_to is None and not due:
            return None
    return SpecialHeaders(tuple(keys), has_bcc, reply_to, due)


def due_in(buf: bytearray, headers_at: int, now_ms: int) -> int:
    """When the headers there want the message delivered; 0: at once."""
    headers, _ = decode_table(buf, headers_at, len(buf))
    try:
        return due_ms(headers, now_ms)
    except PreconditionFailed as error:
        error.blame = BASIC_PUBLISH
        raise


def copy_keys(fields: list[tuple[str, str, object]]) -> list[str]:
    keys: list[str] = []
    for name, letter, value in fields:
        if name not in ("CC", "BCC"):
            continue
        if letter != "A" or not isinstance(value, list):
            found = TYPE_NAMES.get(letter, letter)
            raise PreconditionFailed(
                f'invalid message: {{unacceptable_type_in_header,"{name}",{found}}}', blame=BASIC_PUBLISH
            )
        keys += [key for _, key in value if isinstance(key, str)]
    return keys


def with_special_headers(
    message: Message, route: Route, special_headers: SpecialHeaders
) -> tuple[Message, Route]:
    """The message as it is stored, and its route."""
    if special_headers.has_bcc or special_headers.reply_to is not None:
        properties = message.properties
        headers = None if properties.headers is None else typed_headers(message)
        if headers is not None:
            headers = [field for field in headers if field[0] != "BCC"]
        if special_headers.reply_to is not None:
            properties.reply_to = special_headers.reply_to
        message = rewritten(message, message.names, properties, headers)
    if special_headers.keys:
        route = Route(
            route.names, route.exchange, (), BY_MESSAGE, (message.routing_key, *special_headers.keys)
        )
    return message, route


MANDATORY = 1
NO_QUEUES = ()


def publish_later(channel: Channel, message: Message, route: Route, special_headers: SpecialHeaders) -> None:
    """Delay it; return or drop it where even now no queue could get it.

    A queue's own name is no address without the queue. Other exchanges may get bindings meanwhile: there only
    `mandatory` asks for a queue now.
    """
    bits = channel.publish_bits & MANDATORY
    if (bits or not message.exchange) and not has_queue(message, route, special_headers):
        route.exchange.count_one(0)
        channel.publish(message, NO_QUEUES, bits)
        return
    message = with_delay_spent(message)
    if channel.transaction is not None:
        channel.transaction.delayed.append((message, special_headers.due_ms, special_headers.keys))
        return
    channel.vhost.delays.publish(message, special_headers.due_ms, special_headers.keys)
    channel.publish(message, NO_QUEUES, 0)  # counted, and confirmed in its turn
    if message.persistent and channel.vhost.storage is not None:
        channel.keep(UNKNOWN_QUEUES)


def has_queue(message: Message, route: Route, special_headers: SpecialHeaders) -> bool:
    if route.version == route.exchange.version and not route.varies:
        return bool(route.queues)
    return bool(route.exchange.resolve(message.routing_key, message, special_headers.keys)[0])
