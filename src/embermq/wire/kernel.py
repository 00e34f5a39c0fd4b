"""The interpreted twin of `kernel.pyx`: the same names, the same results, no C needed."""

from __future__ import annotations

import struct

from embermq.wire.delivery_headers import with_fields

_FRAME_END = b"\xce"
_FRAME_HEADER = struct.Struct(">BHI")
_CONTENT_HEADER = struct.Struct(">HHQ")
_ACK_FRAME = struct.Struct(">BHIIQBB")
_TAG_AND_FLAG = struct.Struct(">QB")

STAYS_BYTES_MIN = 64 * 1024  # a body to deliver from this size on is not copied


def _check(buf: bytearray, start: int, stop: int) -> None:
    if start < 0 or stop < start or stop > len(buf):
        raise IndexError(f"bytes {start}..{stop} of a buffer of {len(buf)}")


def load_u16(buf: bytearray, pos: int) -> int:
    _check(buf, pos, pos + 2)
    return int.from_bytes(buf[pos : pos + 2], "big")


def load_u32(buf: bytearray, pos: int) -> int:
    _check(buf, pos, pos + 4)
    return int.from_bytes(buf[pos : pos + 4], "big")


def load_u64(buf: bytearray, pos: int) -> int:
    _check(buf, pos, pos + 8)
    return int.from_bytes(buf[pos : pos + 8], "big")


def cut(buf: bytearray, start: int, stop: int) -> bytes:
    _check(buf, start, stop)
    return bytes(buf[start:stop])


def join(buf: bytearray, start_1: int, stop_1: int, start_2: int, stop_2: int) -> bytes:
    _check(buf, start_1, stop_1)
    _check(buf, start_2, stop_2)
    return bytes(buf[start_1:stop_1] + buf[start_2:stop_2])


def same(buf: bytearray, pos: int, expected: bytes) -> bool:
    return pos >= 0 and buf.startswith(expected, pos)


def body_end(buf: bytearray, at: int, end: int, head: bytes, size_at: int, size_max: int) -> int:
    """Where the body ends of a whole message that stands at buf[at:end] and begins with `head`; else 0.

    `head` is the frames of basic.publish and of the content header, in which the body's size at `size_at` may
    be another, and the beginning of the only body frame (type and channel). The body's bytes begin 4 behind.
    """
    body_at = at + len(head) + 4
    if at < 0 or size_at < 0 or size_at + 8 > len(head) or body_at > end or end > len(buf):
        return 0
    rest_at = size_at + 8
    if buf[at : at + size_at] != head[:size_at] or buf[at + rest_at : body_at - 4] != head[rest_at:]:
        return 0
    size = load_u64(buf, at + size_at)
    stop = body_at + size
    if not 0 < size <= size_max or load_u32(buf, body_at - 4) != size or stop >= end or buf[stop] != 0xCE:
        return 0
    return stop


def _check_content(content: bytes, header_size: int, frame_max: int) -> None:
    if header_size < 0 or header_size > len(content) or frame_max <= 8:
        raise IndexError(
            f"header of {header_size} in a content of {len(content)} bytes, frame-max {frame_max}"
        )


class Output:
    """Frames on their way out of one connection, in the order in which they were put.

    Large bodies of deliveries stay where they are, so that a peer that does not read holds no copy of them:
    `pieces` says where between the frames they belong (None: there are none), and `take_pieces` answers all.
    """

    __slots__ = ("data", "pieces", "pieces_size", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0
        self.pieces: list[tuple[int, memoryview]] | None = None
        self.pieces_size = 0

    def __len__(self) -> int:
        return self.size

    def write(self, data: bytes) -> int:
        """Append bytes that are frames already."""
        self.data += data
        self.size += len(data)
        return 0

    def put_delivery(
        self,
        prefix: bytes,
        delivery_tag: int,
        redelivered: bool,
        names: bytes,
        channel: int,
        content: bytes,
        header_size: int,
        frame_max: int,
    ) -> int:
        """Append basic.deliver and its content.

        `prefix` is the payload up to the delivery tag (class, method, consumer tag), `names` the exchange and
        the routing key as short strings, both just as they stand on the wire.
        """
        _check_content(content, header_size, frame_max)  # first: nothing of a delivery that cannot be whole
        payload = prefix + _TAG_AND_FLAG.pack(delivery_tag, redelivered) + names
        self.data += _FRAME_HEADER.pack(1, channel, len(payload)) + payload + _FRAME_END
        return self.put_content(channel, content, header_size, frame_max)

    def put_content(self, channel: int, content: bytes, header_size: int, frame_max: int) -> int:
        """Append the header frame and as many body frames as `frame_max` makes necessary."""
        _check_content(content, header_size, frame_max)
        self.data += _FRAME_HEADER.pack(2, channel, header_size) + content[:header_size] + _FRAME_END
        if len(content) - header_size >= STAYS_BYTES_MIN:
            return self.put_pieces(channel, content, header_size, len(content), frame_max)
        return self.put_body(channel, content, header_size, frame_max)

    def put_body(self, channel: int, content: bytes, start: int, frame_max: int) -> int:
        """Append body frames for content[start:], as many as `frame_max` makes necessary."""
        for at in range(start, len(content), frame_max - 8):
            part = content[at : at + frame_max - 8]
            self.data += _FRAME_HEADER.pack(3, channel, len(part)) + part + _FRAME_END
        self.size = len(self.data)
        return 0

    def put_pieces(self, channel: int, block: bytes, start: int, stop: int, frame_max: int) -> int:
        """Append body frames for block[start:stop], which stays where it is."""
        view = memoryview(block)
        if self.pieces is None:
            self.pieces = []
        for at in range(start, stop, frame_max - 8):
            part = view[at : min(at + frame_max - 8, stop)]
            self.data += _FRAME_HEADER.pack(3, channel, len(part))
            self.pieces.append((len(self.data), part))
            self.pieces_size += len(part)
            self.data += _FRAME_END
        self.size = len(self.data)
        return 0

    def put_stored_delivery(
        self,
        prefix: bytes,
        delivery_tag: int,
        channel: int,
        block: bytes,
        names_at: int,
        content_at: int,
        stop: int,
        header_size: int,
        field: bytes,
        number: int,
        frame_max: int,
    ) -> int:
        """Append basic.deliver and the content that stands at block[content_at:stop], with one header more.

        `block[names_at:content_at]` is exchange and routing key. The header is `field`, its name as a short
        string followed by the type letter of a 64-bit integer, with the value `number`; it comes last.
        """
        if (
            not (0 <= names_at <= content_at and 14 <= header_size <= stop - content_at)
            or stop > len(block)
            or frame_max <= 8
        ):
            raise IndexError(f"names at {names_at}, header of {header_size} at {content_at}..{stop}")
        header = with_fields(block[content_at : content_at + header_size], field, number)
        body_at, names = content_at + header_size, block[names_at:content_at]
        if stop - body_at < STAYS_BYTES_MIN:
            content = header + block[body_at:stop]
            return self.put_delivery(
                prefix, delivery_tag, False, names, channel, content, len(header), frame_max
            )
        self.put_delivery(prefix, delivery_tag, False, names, channel, header, len(header), frame_max)
        return self.put_pieces(channel, block, body_at, stop, frame_max)

    def put_block(
        self,
        prefix: bytes,
        delivery_tag: int,
        names: bytes,
        channel: int,
        fields: bytes,
        block: bytes,
        start: int,
        stop: int,
        frame_max: int,
    ) -> int:
        """Append basic.deliver and a content with the body block[start:stop]; its headers are `fields`.

        The body stays where it is, see `pieces`.
        """
        if not 0 <= start <= stop <= len(block) or frame_max <= 8:
            raise IndexError(f"bytes {start}..{stop} of a block of {len(block)}, frame-max {frame_max}")
        header = _CONTENT_HEADER.pack(60, 0, stop - start) + b"\x20\x00"
        header += len(fields).to_bytes(4, "big") + fields
        self.put_delivery(prefix, delivery_tag, False, names, channel, header, len(header), frame_max)
        return self.put_pieces(channel, block, start, stop, frame_max)

    def put_publish(self, channel: int, method: bytes, properties: bytes, body: bytes, frame_max: int) -> int:
        """Append basic.publish and its content: `method` is its payload, `properties` flags and values."""
        if frame_max <= 8:
            raise IndexError(f"frame-max {frame_max}")
        header = _CONTENT_HEADER.pack(60, 0, len(body)) + properties
        self.data += _FRAME_HEADER.pack(1, channel, len(method)) + method + _FRAME_END
        self.data += _FRAME_HEADER.pack(2, channel, len(header)) + header + _FRAME_END
        return self.put_body(channel, body, 0, frame_max)

    def put_ack(self, channel: int, delivery_tag: int, multiple: bool) -> int:
        """Append basic.ack: a publisher's confirm."""
        self.data += _ACK_FRAME.pack(1, channel, 13, 0x003C0050, delivery_tag, multiple, 0xCE)
        self.size = len(self.data)
        return 0

    def take_pieces(self) -> list[memoryview]:
        """Everything put so far, in as many pieces as it takes to copy nothing, and start anew."""
        pieces = self.pieces or []
        self.pieces = None
        self.pieces_size = 0
        frames = memoryview(self.take())
        taken: list[memoryview] = []
        at = 0
        for place, piece in pieces:
            taken += (frames[at:place], piece)
            at = place
        taken.append(frames[at:])
        return taken

    def take(self) -> bytes:
        """Everything put so far, and start anew."""
        assert self.pieces is None, "there is more to take, see take_pieces"
        taken = bytes(self.data)
        self.data = bytearray()
        self.size = 0
        return taken

    def lend(self) -> memoryview:
        """As `take`, for a caller that sends it and keeps no reference: the memory of a burst is used again
        after that."""
        return memoryview(self.take())
