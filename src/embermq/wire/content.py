"""A quick scan of content headers: what the broker must know to route and keep a message.

Properties stay the bytes that arrived. A `Peek` walks over them once, checks that they are well formed up to
the last byte, and notes only what routing, persistence, priority, expiry and the user-id check ask for:

    property flags (2, more words while bit 0 is set) | values, in the order of the flag bits from bit 15 down
"""

from __future__ import annotations

from embermq.errors import SyntaxFault
from embermq.wire.field_scan import FieldScan
from embermq.wire.kernel import load_u16

TRANSIENT, PERSISTENT = 1, 2  # delivery modes
ABSENT = -1
# Headers that ask the broker for something, and the number of each in `Peek.special`.
SPECIAL_HEADERS = ("CC", "BCC", "x-delay", "x-deliver-at")
CC, BCC, DELAY, DELIVER_AT = range(4)


def skip_shortstr(buf: bytearray, pos: int, stop: int) -> int:
    """The position behind the short string at `pos`."""
    if pos >= stop:
        raise SyntaxFault("a property is missing at the end of the content header")
    size = buf[pos]
    if pos + 1 + size > stop:
        raise SyntaxFault("a property reaches beyond the content header")
    return pos + 1 + size


class Peek:
    """The properties of the content header read last; reused for every message of a channel."""

    __slots__ = (
        "delivery_mode",
        "expiration_at",
        "headers_at",
        "priority",
        "reply_to_at",
        "special",
        "user_id_at",
    )

    def __init__(self) -> None:
        self.delivery_mode = TRANSIENT
        self.priority = 0
        self.headers_at = ABSENT
        self.expiration_at = ABSENT
        self.user_id_at = ABSENT
        self.reply_to_at = ABSENT
        self.special = FieldScan(SPECIAL_HEADERS)  # of the headers, where there are any

    def read(self, buf: bytearray, pos: int, stop: int) -> int:
        """Walk the properties at `pos` (their flags) to `stop`; SyntaxFault where they do not add up."""
        self.delivery_mode = TRANSIENT
        self.priority = 0
        self.headers_at = ABSENT
        self.expiration_at = ABSENT
        self.user_id_at = ABSENT
        self.reply_to_at = ABSENT
        if pos + 2 > stop:
            raise SyntaxFault("a content header without property flags")
        flags = load_u16(buf, pos)
        pos += 2
        if flags & 0x0003:
            # Bit 0 announces further flag words, bit 1 is unused; class basic has 14 properties and no more.
            raise SyntaxFault("unknown property flags in a content header")
        if flags & 0x8000:  # content-type
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x4000:  # content-encoding
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x2000:
            self.headers_at = pos
            pos = self.special.read(buf, pos, stop)
        if flags & 0x1000:
            if pos >= stop:
                raise SyntaxFault("delivery-mode is missing in the content header")
            self.delivery_mode = buf[pos]
            pos += 1
        if flags & 0x0800:
            if pos >= stop:
                raise SyntaxFault("priority is missing in the content header")
            self.priority = buf[pos]
            pos += 1
        if flags & 0x0400:  # correlation-id
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0200:
            self.reply_to_at = pos
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0100:
            self.expiration_at = pos
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0080:  # message-id
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0040:  # timestamp
            pos += 8
        if flags & 0x0020:  # type
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0010:
            self.user_id_at = pos
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0008:  # app-id
            pos = skip_shortstr(buf, pos, stop)
        if flags & 0x0004:  # cluster-id
            pos = skip_shortstr(buf, pos, stop)
        if pos != stop:
            raise SyntaxFault("the content header is not as long as its properties say")
        return 0
