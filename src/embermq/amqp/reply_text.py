"""Reply texts: how errors are worded on the wire."""

from __future__ import annotations

from embermq.errors import AMQPError, FrameError, UnexpectedFrame
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


def frame_too_large(frame_type: int, size: int, size_max: int) -> FrameError:
    return FrameError(f"type {frame_type}, all octets = <<>>: {{frame_too_large,{size},{size_max - 8}}}")


def bad_frame_end(frame_type: int, buf: bytearray, pos: int, stop: int) -> FrameError:
    """The byte behind the payload is another than it must be."""
    shown = octets(buf, pos, stop)
    return FrameError(f"type {frame_type}, all octets = {shown}: {{invalid_frame_end_marker,{buf[stop]}}}")


def unknown_frame(
    frame_type: int, buf: bytearray, pos: int, stop: int, blame: int | None = None
) -> FrameError:
    shown = octets(buf, pos, stop)
    return FrameError(f"type {frame_type}, all octets = {shown}: unknown_frame", blame=blame)


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
