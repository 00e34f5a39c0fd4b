"""Error texts that fit, and bytes as RabbitMQ writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.amqp.reply_text import OCTETS_SHOWN_MAX, channel_close_method, close_method, cropped, octets
from embermq.errors import NotFound
from embermq.wire import methods

texts = st.text() | st.binary(max_size=400).map(lambda data: data.decode("utf-8", "surrogateescape"))


@given(text=texts, repeat=st.integers(1, 30))
def test_any_text_fits_a_reply(text: str, repeat: int) -> None:
    detail = text * repeat
    shown = cropped(detail)
    assert len(shown.encode("utf-8", "surrogateescape")) <= 255
    if len(detail.encode("utf-8", "surrogateescape")) <= 255:
        assert shown == detail
    close = close_method(NotFound(detail), 0x0032000A)
    encoded = close.encode()
    assert methods.decode_method(encoded, 0, len(encoded)).encode() == encoded


def test_a_character_is_not_cut_in_half() -> None:
    assert cropped("x" * 254 + "é") == "x" * 254


def test_the_method_at_fault_is_named() -> None:
    error = NotFound("no queue 'q' in vhost '/'")
    text = "NOT_FOUND - no queue 'q' in vhost '/'"
    assert close_method(error, 0x0032000A) == methods.ConnectionClose(404, text, 50, 10)
    assert channel_close_method(error, 0) == methods.ChannelClose(404, text, 0, 0)


def test_octets_show_the_beginning() -> None:
    assert octets(bytearray(b"\x00\x01\xff"), 0, 3) == "<<0,1,255>>"
    assert octets(bytearray(b"\x00\x01\xff"), 1, 1) == "<<>>"
    assert octets(bytearray(1000), 10, 900).count("0") == OCTETS_SHOWN_MAX
