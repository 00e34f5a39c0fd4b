"""Blocks of a stream: many messages in the body of one delivery, as they stand in the broker's log.

A block is records, one behind the other. A record (numbers little-endian):

     0  4  checksum of the record in the broker's file: nothing that a receiver could use
     4  4  size of what follows behind the flags
     8  8  offset in the stream, larger than that of the record before
    16  8  when the broker took the message, ms since 1970
    24  1  flags of the broker
    25  4  size of the content header
    29  1  priority
    30     exchange (short string), routing key (short string), content header, body

Content header and body are what AMQP puts into their frames (002, 4.2.6). `block.pyx` beside this file is the
compiled twin.
"""

from __future__ import annotations

import struct

from embermq.errors import SyntaxFault
from embermq.wire.columns.column import ByteColumn, NumberColumn
from embermq.wire.delivery_headers import OFFSET_FIELD, TIME_FIELD, with_fields

_HEAD = struct.Struct("<4xIQQx")
_CONTENT_SIZE = struct.Struct("<I")
_HEAD_BYTES = 25
_NAMES_AT = 30
_CONTENT_HEADER_BYTES_MIN = 14


class BlockRows:
    """Takes blocks apart, into the columns that are there; their messages are rows like any other.

    `properties` get the headers that an ordinary delivery has: the offset, and before it, if it is `timed`,
    the time.
    """

    __slots__ = (
        "_bodies",
        "_exchanges",
        "_offsets",
        "_properties",
        "_redelivered",
        "_routing_keys",
        "_timed",
        "count",
        "next_offset",
    )

    def __init__(
        self,
        bodies: ByteColumn | None,
        exchanges: ByteColumn | None,
        routing_keys: ByteColumn | None,
        properties: ByteColumn | None,
        offsets: NumberColumn | None,
        redelivered: NumberColumn | None,
        timed: bool,
    ) -> None:
        self._bodies = bodies
        self._exchanges = exchanges
        self._routing_keys = routing_keys
        self._properties = properties
        self._offsets = offsets
        self._redelivered = redelivered
        self._timed = timed
        self.count = 0  # of this block
        self.next_offset = 0  # the least that the next record may have

    def begin(self) -> int:
        """A new block comes."""
        self.count = self.next_offset = 0
        return 0

    def unpack(self, buf: bytearray, pos: int, stop: int) -> int:
        """Append the messages of buf[pos:stop]; where the first record begins that is not whole."""
        if pos < 0 or stop > len(buf):
            raise IndexError(f"bytes {pos}..{stop} of a buffer of {len(buf)}")
        while stop - pos >= _HEAD_BYTES:
            size, offset, time_ms = _HEAD.unpack_from(buf, pos)
            end = pos + _HEAD_BYTES + size
            if end > stop:
                break
            self._append(buf, pos, end, offset, time_ms)
            pos = end
        return pos

    def _append(self, buf: bytearray, pos: int, end: int, offset: int, time_ms: int) -> None:
        exchange_at = pos + _NAMES_AT + 1
        key_at = exchange_at + buf[exchange_at - 1] + 1 if exchange_at < end else end + 1
        header_at = key_at + buf[key_at - 1] if key_at < end else end
        header_size = _CONTENT_SIZE.unpack_from(buf, pos + _HEAD_BYTES)[0] if header_at < end else 0
        body_at = header_at + header_size
        if (
            header_size < _CONTENT_HEADER_BYTES_MIN
            or body_at > end
            or int.from_bytes(buf[header_at + 4 : header_at + 12], "big") != end - body_at
            or not self.next_offset <= offset < 1 << 63
        ):
            raise SyntaxFault(f"a block of a stream is damaged at its record {self.count}")
        if self._properties is not None:
            field = OFFSET_FIELD
            if self._timed:
                field = TIME_FIELD + time_ms.to_bytes(8, "big") + OFFSET_FIELD
            try:
                header = bytearray(with_fields(bytes(buf[header_at:body_at]), field, offset))
            except IndexError as error:
                raise SyntaxFault(
                    f"a block of a stream is damaged at its record {self.count}: {error}"
                ) from None
            self._properties.append(header, 12, len(header))
            self._properties.end()
        for column, start, stop in (
            (self._exchanges, exchange_at, key_at - 1),
            (self._routing_keys, key_at, header_at),
            (self._bodies, body_at, end),
        ):
            if column is not None:
                column.append(buf, start, stop)
                column.end()
        if self._offsets is not None:
            self._offsets.append(offset)
        if self._redelivered is not None:
            self._redelivered.append(0)
        self.next_offset = offset + 1
        self.count += 1
