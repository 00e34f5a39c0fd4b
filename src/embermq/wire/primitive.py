"""Primitives of generated methods, properties and tables: strings on the wire, the error for bad lengths.

AMQP's strings are bytes with a length in front. Short strings (1 byte of length) become `str`: UTF-8 with
"surrogateescape", so that any bytes a client sends come out again unchanged. Long strings (4 bytes of length)
among a method's arguments stay `bytes`.
"""

from __future__ import annotations

from typing import NamedTuple

from embermq.errors import SyntaxFault

Buffer = bytes | bytearray

SHORTSTR_BYTES_MAX = 255
LONGSTR_BYTES_MAX = 0xFFFF_FFFF


def encode_shortstr(text: str) -> bytes:
    """Length byte and UTF-8; more than 255 bytes is our mistake, hence a ValueError."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"short string of {len(data)} bytes, {SHORTSTR_BYTES_MAX} is the most")
    return len(data).to_bytes(1, "big") + data


def encode_longstr(data: Buffer) -> bytes:
    """Four bytes of length and the bytes."""
    if len(data) > LONGSTR_BYTES_MAX:
        raise ValueError(f"long string of {len(data)} bytes, {LONGSTR_BYTES_MAX} is the most")
    return len(data).to_bytes(4, "big") + data


class Content(NamedTuple):
    """0-9's field type `content`: a body, or the name of a reference that the body was appended to."""

    data: bytes = b""
    by_reference: bool = False


NO_CONTENT = Content()


def encode_content(content: Content) -> bytes:
    return bytes((content.by_reference,)) + encode_longstr(content.data)


def decode_content(buf: Buffer, pos: int, end: int) -> tuple[Content, int]:
    """The content at `pos`, and where it ends."""
    if pos + 5 > end:
        raise misfit("content", pos + 5, end)
    if buf[pos] > 1:
        raise SyntaxFault(f"content is neither inline (0) nor a reference (1) but {buf[pos]}")
    stop = pos + 5 + int.from_bytes(buf[pos + 1 : pos + 5], "big")
    if stop > end:
        raise misfit("content", stop, end)
    return Content(bytes(buf[pos + 5 : stop]), buf[pos] == 1), stop


def misfit(name: str, pos: int, end: int) -> SyntaxFault:
    """The fault for `name`, whose fields reach to `pos` while its bytes end at `end`."""
    if pos > end:
        return SyntaxFault(f"{name} is cut short, at least {pos - end} bytes are missing")
    return SyntaxFault(f"{name} is followed by {end - pos} bytes that do not belong to it")
