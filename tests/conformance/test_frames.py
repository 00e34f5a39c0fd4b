"""The general frame format and its errors (002, 2.3.5 and 4.2.3)."""

import struct

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import FRAME_METHOD, RawChannel, RawClient, short_string, unique
from tests.support.raw_frames import Closed, describe

OPEN_CHANNEL_2 = b"\x00\x14\x00\x0a\x00"
FRAME_END = rule(
    "002",
    "4.2.3",
    "frame-end/invalid",
    "A frame whose end is not 0xCE is a fatal protocol error: the connection ends, the frame is not handled",
)
UNKNOWN_TYPE = rule(
    "002",
    "4.2.3",
    "frame-type/unknown",
    "A frame of an undefined type is a fatal protocol error: the connection ends",
)
MALFORMED = rule("001", "1.2", "frame-error", "501: a malformed frame that cannot be decoded")


def expect_frame_error(client: RawClient) -> None:
    """connection.close 501, which clients show to people, or the end of the socket, which 002 asks for."""
    try:
        frame = client.next_frame()
    except Closed:
        return
    assert isinstance(frame.value, spec.Connection.Close), describe(frame)
    assert frame.value.reply_code == 501, describe(frame)
    assert frame.value.reply_text.startswith("FRAME_ERROR - ")
    client.send(spec.Connection.CloseOk())
    client.expect_eof()


@pytest.mark.parametrize("end", [0x00, 0xCD, 0xCF, 0xFF])
@FRAME_END
@rule("000", "4.2.3", "amq_wlp_frame_02", "The frame-end is checked before the frame is decoded")
def test_wrong_frame_end(client: RawClient, end: int) -> None:
    client.send_frame(FRAME_METHOD, 2, OPEN_CHANNEL_2, end=end)
    expect_frame_error(client)


@FRAME_END
def test_frame_with_a_size_too_small(client: RawClient) -> None:
    client.send_frame(FRAME_METHOD, 2, OPEN_CHANNEL_2 + b"\x00\x00", size=len(OPEN_CHANNEL_2))
    expect_frame_error(client)


@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 10, 65, 255])
@pytest.mark.parametrize("number", [0, 1, 9], ids=["channel-0", "open-channel", "other-channel"])
@UNKNOWN_TYPE
@rule(
    "000",
    "4.2.3",
    "amq_wlp_frame_01",
    "A type that is not defined (in 0-9-1: 1, 2, 3 and 8) ends the connection",
)
def test_unknown_frame_type(client: RawClient, kind: int, number: int) -> None:
    client.channel(1)
    client.send_frame(kind, number, b"abc")
    expect_frame_error(client)


@rule("002", "2.3.5", "frame/any-split", "Frames are found whatever the pieces in which the stream arrives")
def test_frames_in_single_octets(client: RawClient) -> None:
    queue = unique()
    payload = b"\x00\x32\x00\x0a\x00\x00" + short_string(queue) + b"\x04" + b"\x00\x00\x00\x00"
    frame = struct.pack(">BHI", FRAME_METHOD, 1, len(payload)) + payload + b"\xce"
    client.channel(1)
    for octet in frame:
        client.send_bytes(bytes([octet]))
    client.expect(spec.Queue.DeclareOk, 1, queue=queue)


@rule("002", "2.3.5", "frame/many-at-once", "Many frames may arrive in one piece and are handled in order")
def test_many_frames_in_one_write(client: RawClient) -> None:
    names = [unique() for _ in range(100)]
    stream = struct.pack(">BHI", FRAME_METHOD, 1, 5) + OPEN_CHANNEL_2 + b"\xce"
    for name in names:
        payload = b"\x00\x32\x00\x0a\x00\x00" + short_string(name) + b"\x04" + b"\x00\x00\x00\x00"
        stream += struct.pack(">BHI", FRAME_METHOD, 1, len(payload)) + payload + b"\xce"
    client.send_bytes(stream)
    client.expect(spec.Channel.OpenOk, 1)
    assert [client.expect(spec.Queue.DeclareOk, 1).queue for _ in names] == names


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x14", b"\x00\x14\x00"])
@MALFORMED
def test_method_frame_without_a_method_number(channel: RawChannel, payload: bytes) -> None:
    channel.send_frame(FRAME_METHOD, payload)
    expect_frame_error(channel.client)


@rule(
    "002",
    "4.5",
    "frame/cut-off",
    "A socket that ends amid a frame ends the connection; nothing of the frame counts",
)
def test_half_a_frame(client: RawClient, channel: RawChannel, connect: object) -> None:
    queue = unique()
    payload = b"\x00\x32\x00\x0a\x00\x00" + short_string(queue) + b"\x00" + b"\x00\x00\x00\x00"
    client.send_bytes(struct.pack(">BHI", FRAME_METHOD, 1, len(payload)) + payload)
    client.drop()
    other: RawChannel = connect().channel(1)  # type: ignore[operator]
    other.call_fails(spec.Queue.Declare(queue=queue, passive=True), 404)


@rule("002", "4.2.5.2", "bits/low-first", "Consecutive bits are packed from the low bit of an octet")
def test_order_of_bits(channel: RawChannel) -> None:
    queue = unique()
    # queue.declare has passive, durable, exclusive, auto-delete, no-wait: 0b01100 is exclusive, auto-delete.
    channel.send_method(50, 10, b"\x00\x00" + short_string(queue) + b"\x0c" + b"\x00\x00\x00\x00")
    channel.expect(spec.Queue.DeclareOk)
    # Passive is bit 0: nothing is created.
    missing = unique()
    channel.send_method(50, 10, b"\x00\x00" + short_string(missing) + b"\x01" + b"\x00\x00\x00\x00")
    channel.expect_close(404)


@rule("002", "4.2.5.1", "integers/byte-order", "Integers are unsigned and in network byte order")
def test_byte_order(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"x" * 258, routing_key=queue)
    message = channel.get(queue, no_ack=False)
    assert message is not None
    # class 60, weight 0, body size 258 in eight octets.
    assert message.frames[0].payload[:12] == b"\x00\x3c\x00\x00" + b"\x00\x00\x00\x00\x00\x00\x01\x02"


@rule("002", "4.2.5.3", "short-string/length", "Short strings carry up to 255 octets of UTF-8")
def test_longest_short_string(channel: RawChannel) -> None:
    name = unique() + "\N{GREEK SMALL LETTER OMEGA}" * 100
    name += "x" * (255 - len(name.encode()))
    channel.send_method(50, 10, b"\x00\x00" + short_string(name) + b"\x0c" + b"\x00\x00\x00\x00")
    channel.expect(spec.Queue.DeclareOk, queue=name)


@rule("002", "1.4.1", "names/case", "Names are case-sensitive: amq.Direct is not amq.direct")
def test_names_are_case_sensitive(channel: RawChannel) -> None:
    queue = channel.declare(unique("Case"))
    channel.call(spec.Exchange.Declare(exchange="amq.direct", passive=True))
    channel.call_fails(spec.Exchange.Declare(exchange="amq.Direct", passive=True), 404)
    channel.open()
    channel.publish(b"x", routing_key=queue.lower(), mandatory=True)
    channel.returned(reply_code=312, reply_text="NO_ROUTE")


@rule("002", "4.2.5.3", "short-string/utf-8", "A name that is not UTF-8 is refused")
def test_short_string_that_is_not_utf_8(channel: RawChannel) -> None:
    channel.send_method(50, 10, b"\x00\x00" + short_string(b"\xff\xfe\xfd") + b"\x0c" + b"\x00\x00\x00\x00")
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502), close.reply_text


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"\x00\x00\x05ab", id="short-string-cut-off"),
        pytest.param(b"\x00\x00\x01q", id="bits-missing"),
        pytest.param(b"\x00\x00\x01q\x04", id="table-missing"),
        pytest.param(b"\x00\x00\x01q\x04\x00\x00\x00\x64abc", id="table-cut-off"),
        pytest.param(b"\x00\x00\x01q\x04\xff\xff\xff\xff", id="table-of-4-GiB"),
        pytest.param(b"\x00\x00\x01q\x04\x00\x00\x00\x00extra", id="octets-left-over"),
    ],
)
@rule("002", "4.2.4", "method/arguments", "A method's arguments are exactly the fields of its definition")
@rule("001", "1.2", "syntax-error", "502 (or 501): a frame with illegal values for one or more fields")
def test_malformed_arguments(channel: RawChannel, arguments: bytes) -> None:
    channel.send_method(50, 10, arguments)
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502), close.reply_text
    assert (close.class_id, close.method_id) == (50, 10)
    channel.client.send(spec.Connection.CloseOk())
    channel.client.expect_eof()
