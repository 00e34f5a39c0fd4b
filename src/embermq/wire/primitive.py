"""Primitives of generated methods, properties and tables: strings on the wire, the error for bad lengths.

AMQP's strings are bytes with a length in front. Short strings (1 byte of length) become `str`: UTF-8 with
"surrogateescape", so that any bytes a client sends come out again unchanged. Long strings (4 bytes of length)
among a method's arguments stay `bytes`.
"""

from __future__ import annotations

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


def misfit(name: str, pos: int, end: int) -> SyntaxFault:
    """The fault for `name`, whose fields reach to `pos` while its bytes end at `end`."""
    if pos > end:
        return SyntaxFault(f"{name} is cut short, at least {pos - end} bytes are missing")
    return SyntaxFault(f"{name} is followed by {end - pos} bytes that do not belong to it")
