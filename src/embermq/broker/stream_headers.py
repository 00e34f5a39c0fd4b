"""Headers that streams know: what stands in a published message, what a delivery is given."""

from __future__ import annotations

from embermq.broker.message import FLAGS_AT, Message
from embermq.broker.rewriting import rewritten, typed_headers
from embermq.wire.properties import FLAG_HEADERS

OFFSET_HEADER = "x-stream-offset"
TIME_HEADER = "x-stream-timestamp"
HEADERS_FLAG = FLAG_HEADERS >> 8  # in the first of the two octets


def prepared(message: Message) -> Message:
    """The message without what another stream that it came from said of it: it will get that of its own."""
    content = message.content
    if content[FLAGS_AT] & HEADERS_FLAG and (
        content.find(b"\x0fx-stream-offset", 0, message.header_size) >= 0
        or content.find(b"\x12x-stream-timestamp", 0, message.header_size) >= 0
    ):
        headers = [field for field in typed_headers(message) if field[0] not in (OFFSET_HEADER, TIME_HEADER)]
        return rewritten(message, message.names, message.properties, headers)
    return message
