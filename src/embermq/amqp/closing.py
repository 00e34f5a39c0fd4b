"""How errors are worded on the wire."""

from __future__ import annotations

from embermq.errors import AMQPError, UnexpectedFrame
from embermq.wire import methods

OCTETS_SHOWN_MAX = 32
METHOD_EXPECTED, HEADER_EXPECTED = 0, 1
REPLY_TEXT_BYTES_MAX = 255


def close_method(error: AMQPError, blame: int) -> methods.ConnectionClose:
    return methods.ConnectionClose(error.reply_code, cropped(error.reply_text), blame >> 16, blame & 0xFFFF)


def channel_close_method(error: AMQPError, blame: int) -> methods.ChannelClose:
    return methods.ChannelClose(error.reply_code, cropped(error.reply_text), blame >> 16, blame & 0xFFFF)


def octets(buf: bytearray, pos: int, stop: int) -> str:
    """A payload in RabbitMQ's way of writing bytes, the beginning of it."""
    shown = ",".join(str(byte) for byte in buf[pos : min(stop, pos + OCTETS_SHOWN_MAX)])
    return f"<<{shown}>>"


def cropped(text: str) -> str:
    """A reply text is a short string; what does not fit is cut."""
    data = text.encode("utf-8", "surrogateescape")
    return data[:REPLY_TEXT_BYTES_MAX].decode("utf-8", "ignore") if len(data) > REPLY_TEXT_BYTES_MAX else text


def unexpected(expects: int) -> UnexpectedFrame:
    """A frame that is not what a channel waits for (its `expects`)."""
    if expects == METHOD_EXPECTED:
        return UnexpectedFrame("expected method frame, got non method frame instead", blame=0)
    if expects == HEADER_EXPECTED:
        return UnexpectedFrame(
            "expected content header for class 60, got non content header frame instead",
            blame=methods.BasicPublish.ID,
        )
    return UnexpectedFrame(
        "expected content body, got non content body frame instead", blame=methods.BasicPublish.ID
    )
