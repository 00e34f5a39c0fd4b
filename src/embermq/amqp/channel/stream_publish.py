"""Publishing to one stream and nothing else: from the read buffer straight into its log.

A publisher that floods a stream sends one message like the other: the same frames before the body, but for
its size. What was found out about the first of them (route, permission, properties) holds for all, so it is
asked once; those that follow in the buffer are compared with it and appended, and no object is made of any.

A message with anything special about it (headers, a transaction, `immediate`, a route that depends on each)
goes the long way. For clients there is no difference but in speed.
"""

from __future__ import annotations

from struct import Struct

from embermq.broker.exchange.exchange import Route
from embermq.broker.message.record import pack_meta
from embermq.broker.queue.queue import Queue
from embermq.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from embermq.wire.frame import FRAME_PREFIX_BYTES, frame
from embermq.wire.kernel import body_end, cut

BODY_SIZE_AT = 4  # in a content header
PREFIX_BYTES = FRAME_PREFIX_BYTES  # under a name of this module, where it is a C number
PUBLISH_UP_TO_NAMES = b"\x00\x3c\x00\x28\x00\x00"  # class, method, ticket

_BODY_FRAME = Struct(">BH")


class StreamPublish:
    """Made for one channel. `count` is how many messages the last call took."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def take(
        self,
        route: Route,
        number: int,
        bits: int,
        priority: int,
        size_max: int,
        buf: bytearray,
        header_at: int,
        header_stop: int,
        body_stop: int,
        end: int,
    ) -> int:
        """Take the message whose header and body stand there, and those like it that follow in buf[:end].

        The header has been checked, `bits` are those of basic.publish, and no body may be longer than
        `size_max`. Answers where the next frame begins; 0: the message must go the long way.
        """
        if route.varies or route.version != route.exchange.version:
            return 0
        stream: Queue = route.queues[0]
        header_size = header_stop - header_at
        body_at = header_stop + 1 + PREFIX_BYTES
        prefix = pack_meta(header_size, priority) + route.names
        if not stream.append_spans(prefix, buf, header_at, header_stop, body_at, body_stop):
            return 0
        count = 1
        head = head_of(number, route.names, bits, cut(buf, header_at, header_stop))
        body_in_head = len(head) + 4
        header_in_head = body_in_head - (body_at - header_at)
        size_at = header_in_head + BODY_SIZE_AT
        at = body_stop + 1
        while True:
            body_stop = body_end(buf, at, end, head, size_at, size_max)
            if body_stop == 0:
                break
            header_at = at + header_in_head
            if not stream.append_spans(
                prefix, buf, header_at, header_at + header_size, at + body_in_head, body_stop
            ):
                break
            count += 1
            at = body_stop + 1
        route.count += count
        self.count = count
        return at


def head_of(number: int, names: bytes, bits: int, header: bytes) -> bytes:
    """What stands before the size of a body's only frame: basic.publish, content header, its beginning."""
    method = PUBLISH_UP_TO_NAMES + names + bytes((bits,))
    frames = frame(FRAME_METHOD, number, method) + frame(FRAME_HEADER, number, header)
    return frames + _BODY_FRAME.pack(FRAME_BODY, number)
