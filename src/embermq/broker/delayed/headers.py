"""Headers of delayed messages: `x-delay` and `x-deliver-at`.

    x-delay        milliseconds from now: any number, or digits as text (RabbitMQ's delayed message exchange)
    x-deliver-at   a point in time: a timestamp field (seconds), a number of milliseconds since 1970, or text
                   as in ISO 8601 (UTC where it names no zone); where both are given this one counts

Nothing or less than nothing to wait for: the message goes its way at once. A text that is no time, or a time
so far away that it must be a mistake, is refused: a message that is delivered early cannot be taken back.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from embermq.broker.message.message import Message, make_message
from embermq.broker.message.rewrite import typed_headers, with_header
from embermq.broker.queue.arguments import TTL_MS_MAX
from embermq.errors import PreconditionFailed
from embermq.wire.table import Timestamp

DELAY = "x-delay"
DELIVER_AT = "x-deliver-at"
INT32_MIN = -(2**31)
PATCHED = {"I": struct.Struct(">i"), "l": struct.Struct(">q")}
# A number below this is in March 1973 or before, if it counts milliseconds: seconds were meant.
MILLISECONDS_MIN = 100_000_000_000


def due_ms(headers: Mapping[str, object], now_ms: int) -> int:
    """When the headers want the message delivered; 0: at once."""
    due = 0
    if DELIVER_AT in headers:
        due = point_in_time_ms(headers[DELIVER_AT])
    elif DELAY in headers:
        delay = delay_ms(headers[DELAY]) or 0
        # The millisecond that has begun does not count: nothing may come early by a part of one.
        due = now_ms + delay + 1 if delay > 0 else 0
    if due - now_ms > TTL_MS_MAX:
        name = DELIVER_AT if DELIVER_AT in headers else DELAY
        raise PreconditionFailed(f"invalid header '{name}': more than ten years from now")
    return due if due > now_ms else 0


def delay_ms(value: object) -> int | None:
    """The milliseconds of x-delay; None for a value that says nothing about time."""
    if isinstance(value, str):
        if re.fullmatch("[+-]?[0-9]{1,18}", value) is None:
            raise PreconditionFailed(f"invalid header '{DELAY}': '{value}' is no number")
        return int(value)
    return number(value)


def number(value: object) -> int | None:
    if isinstance(value, bool | Timestamp):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float | Decimal):
        try:
            return int(value)
        except (ValueError, OverflowError):  # not a number, or without end
            return None
    return None


def point_in_time_ms(value: object) -> int:
    if isinstance(value, Timestamp):
        return int(value) * 1000
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise PreconditionFailed(f"invalid header '{DELIVER_AT}': '{value}' is no time") from None
    milliseconds = number(value)
    if milliseconds is None:
        raise PreconditionFailed(f"invalid header '{DELIVER_AT}': a timestamp, a number or a text is wanted")
    if milliseconds < MILLISECONDS_MIN:
        raise PreconditionFailed(
            f"invalid header '{DELIVER_AT}': {milliseconds} is long ago, in milliseconds since 1970"
        )
    return milliseconds


def with_delay_spent(message: Message) -> Message:
    """The message as it will be delivered: `x-delay` negative, as a sign that it has waited."""
    if message.content.find(b"x-delay", 0, message.header_size) < 0:
        return message
    for name, letter, value in typed_headers(message):
        if name != DELAY:
            continue
        delay = delay_ms(value)
        if delay is None or delay <= 0:
            return message
        field = b"\x07x-delay" + letter.encode()
        at = message.content.find(field, 0, message.header_size)
        # Where it stands only once, and there is room for the sign, four or eight bytes are all that changes.
        if letter in PATCHED and message.content.find(field, at + 1, message.header_size) < 0:
            return patched(message, at + len(field), PATCHED[letter].pack(-delay))
        return with_header(message, (DELAY, "I" if delay <= -INT32_MIN else "l", -delay))
    return message


def patched(message: Message, at: int, data: bytes) -> Message:
    """The same message with other bytes at one place of its header."""
    content = message.content[:at] + data + message.content[at + len(data) :]
    new = make_message(
        message.names, content, message.header_size, message.persistent, message.priority, message.publisher
    )
    new.ttl_ms = message.ttl_ms
    return new
