"""A message as it arrived: the bytes of its header and body, and the few facts that the broker works with.

    names    | exchange (short string) | routing key (short string)            as in basic.publish
    content  | class weight body-size flags properties | body                  header_size | the rest

Both are sent again as they are; nothing is decoded unless it is needed.
"""

from __future__ import annotations

from embermq.wire.properties import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    Properties,
)

# Where the property flags stand in a content header: behind class (2), weight (2) and body size (8).
FLAGS_AT = 12
NO_TTL = -1
# In the first of the two octets.
CONTENT_TYPE_FLAG, CONTENT_ENCODING_FLAG = FLAG_CONTENT_TYPE >> 8, FLAG_CONTENT_ENCODING >> 8
HEADERS_FLAG, EXPIRATION_FLAG = FLAG_HEADERS >> 8, FLAG_EXPIRATION >> 8


class Message:
    __slots__ = ("content", "header_size", "names", "persistent", "priority", "publisher", "size", "ttl_ms")

    def __init__(
        self, names: bytes, content: bytes, header_size: int, persistent: bool, priority: int, publisher: int
    ) -> None:
        self.names = names
        self.content = content
        self.header_size = header_size
        self.size = len(content)
        self.persistent = persistent
        self.priority = priority
        self.publisher = publisher  # number of the publishing connection, for no-local
        self.ttl_ms = NO_TTL  # the expiration property, where there is one

    @property
    def exchange(self) -> str:
        return self.names[1 : 1 + self.names[0]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        return self.names[2 + self.names[0] :].decode("utf-8", "surrogateescape")

    @property
    def body(self) -> bytes:
        return self.content[self.header_size :]

    @property
    def properties(self) -> Properties:
        return Properties.decode(self.content, FLAGS_AT, self.header_size)


def make_message(
    names: bytes, content: bytes, header_size: int, persistent: bool, priority: int, publisher: int
) -> Message:
    """The same as `Message(...)`, which compiled code must call by way of Python objects."""
    message = Message.__new__(Message)
    message.names = names
    message.content = content
    message.header_size = header_size
    message.size = len(content)
    message.persistent = persistent
    message.priority = priority
    message.publisher = publisher
    message.ttl_ms = -1  # NO_TTL, as a number of C
    return message


def headers_at(content: bytes) -> int:
    """Where the field table of the headers stands in a content header; 0: there is none."""
    flags = content[FLAGS_AT]
    if not flags & HEADERS_FLAG:
        return 0
    pos = FLAGS_AT + 2
    if flags & CONTENT_TYPE_FLAG:
        pos += 1 + content[pos]
    if flags & CONTENT_ENCODING_FLAG:
        pos += 1 + content[pos]
    return pos


def expiration_ms(content: bytes, header_size: int) -> int:
    """The expiration property in milliseconds, NO_TTL without one."""
    if not content[FLAGS_AT] & EXPIRATION_FLAG:
        return NO_TTL
    expiration = Properties.decode(content, FLAGS_AT, header_size).expiration
    return int(expiration) if expiration else NO_TTL


def expiry_of(message: Message, queue_ttl_ms: int, since_ms: int) -> int:
    """When a message that came to a queue at `since_ms` expires there; 0: never."""
    # Compared with zero, a number of C, and not with NO_TTL.
    if message.ttl_ms < 0:
        return 0 if queue_ttl_ms < 0 else since_ms + queue_ttl_ms
    if queue_ttl_ms < 0:
        return since_ms + message.ttl_ms
    return since_ms + min(queue_ttl_ms, message.ttl_ms)
