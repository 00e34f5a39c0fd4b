"""Headers that a broker adds to those of a stored message when it delivers it."""

from __future__ import annotations

# As they stand in a table, up to the value: the name as a short string, the letter of a 64-bit integer.
OFFSET_FIELD = b"\x0fx-stream-offsetl"
# The time at which the broker took a message, in milliseconds, for consumers that ask for it.
TIME_FIELD = b"\x12x-stream-timestampl"
# How many messages there are in a block of a stream, see embermq.wire.columns.block.
COUNT_FIELD = b"\x0ex-stream-blockl"


def with_fields(header: bytes, fields: bytes, number: int) -> bytes:
    """A content header with further headers, which come last: `fields` and, as their last value, `number`."""
    flags = int.from_bytes(header[12:14], "big")
    at = 14
    for flag in (0x8000, 0x4000):
        if flags & flag and at < len(header):
            at += 1 + header[at]
    rest_at, table = at, b""
    if flags & 0x2000:
        if at + 4 > len(header):
            raise IndexError("a content header ends before its headers")
        rest_at = at + 4 + int.from_bytes(header[at : at + 4], "big")
        table = header[at + 4 : rest_at]
    if rest_at > len(header):
        raise IndexError("a content header ends before its headers do")
    table += fields + number.to_bytes(8, "big")
    return b"".join(
        (
            header[:12],
            (flags | 0x2000).to_bytes(2, "big"),
            header[14:at],
            len(table).to_bytes(4, "big"),
            table,
            header[rest_at:],
        )
    )
