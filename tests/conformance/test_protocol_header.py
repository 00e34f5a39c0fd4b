"""How client and server agree on a protocol: the first eight octets (002, 4.2.2)."""

from collections.abc import Callable

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import PROTOCOL_HEADER, RawClient

HEADER_OF_0_9 = b"AMQP\x01\x01\x00\x09"
HEADER_OF_0_8 = b"AMQP\x01\x01\x08\x00"

REJECT = rule(
    "002",
    "4.2.2",
    "protocol-header/reject",
    "What the server does not recognise, or a version that it does not speak, is answered with a valid "
    "protocol header, flushed, and then the socket is closed",
)


@rule("002", "4.2.2", "protocol-header/accept", "AMQP 0 0 9 1 is answered with connection.start")
@rule("000", "4.2.2", "amq_wlp_header_01", "The server accepts the AMQP protocol (0-9-1: AMQP 0 0 9 1)")
def test_header_of_0_9_1_is_answered_with_start(raw: RawClient) -> None:
    raw.send_bytes(PROTOCOL_HEADER)
    start = raw.expect(spec.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)


@rule("002", "4.2.2", "protocol-header/eight-octets", "All eight octets of the header identify the protocol")
def test_header_may_come_octet_by_octet(raw: RawClient) -> None:
    for octet in PROTOCOL_HEADER:
        raw.send_bytes(bytes([octet]))
    raw.expect(spec.Connection.Start)


@pytest.mark.parametrize("header", [HEADER_OF_0_9, HEADER_OF_0_8], ids=["0-9", "0-8"])
@rule(
    "000",
    "4.2.2",
    "protocol-header/older",
    "Clients of 0-9 and 0-8 are served as far as the versions agree",
    "MAY",
)
def test_clients_of_older_versions_use_what_is_common(raw: RawClient, header: bytes) -> None:
    raw.open_protocol(header)
    raw.start_ok(properties={})
    raw.tune = raw.expect(spec.Connection.Tune)
    raw.tune_ok()
    raw.open_vhost()
    raw.send(spec.Channel.Open(), 1)
    frame = raw.next_frame()
    # channel.open-ok has no argument in 0-8 and one in 0-9-1: only its number is common.
    assert frame.payload[:4] == b"\x00\x14\x00\x0b"


def payload(raw: RawClient) -> bytes:
    """Of the next frame, which a decoder of 0-9-1 would misread."""
    head = raw.read_bytes(7)
    return raw.read_bytes(int.from_bytes(head[3:], "big") + 1)[:-1]


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


@pytest.mark.parametrize("ends", ["client", "server"])
@rule(
    "000",
    "4.2.2",
    "protocol-header/0-8-close",
    "A client of 0-8 consumes without arguments and closes by 0-8's numbers, and so is it told of a close",
    "MAY",
)
def test_a_client_of_0_8_from_hello_to_goodbye(raw: RawClient, ends: str) -> None:
    raw.open_protocol(HEADER_OF_0_8)
    raw.start_ok(properties={})
    raw.tune = raw.expect(spec.Connection.Tune)
    raw.tune_ok()
    raw.open_vhost()
    raw.send(spec.Channel.Open(), 1)
    assert payload(raw) == b"\x00\x14\x00\x0b"
    queue = f"of-0-8-{ends}"
    raw.send(spec.Queue.Declare(queue=queue, exclusive=True), 1)
    raw.expect(spec.Queue.DeclareOk, 1)
    raw.send_method(1, 60, 20, b"\0\0" + short(queue.encode()) + short(b"tag") + b"\0")  # no arguments
    raw.expect(spec.Basic.ConsumeOk, 1, consumer_tag="tag")
    if ends == "client":
        raw.send_method(0, 10, 60, b"\0\xc8" + short(b"bye") + bytes(4))
        assert payload(raw) == b"\x00\x0a\x00\x3d"
    else:
        raw.send_method(1, 60, 20, b"\0\0" + short(queue.encode()) + short(b"tag") + b"\0")  # in use
        told = payload(raw)
        assert told[:6] == b"\x00\x0a\x00\x3c" + (530).to_bytes(2, "big")
        raw.send_method(0, 10, 61)
    raw.expect_eof()


@rule(
    "000",
    "4.2.2",
    "protocol-header/0-8-start",
    "A client of 0-8 is told a version and values that it can read",
)
def test_start_for_0_8_holds_only_what_0_8_knows(raw: RawClient) -> None:
    start = raw.open_protocol(HEADER_OF_0_8)
    assert (start.version_major, start.version_minor) == (8, 0)
    # The capabilities are booleans, a field type that came after 0-8.
    unreadable = {
        name: value for name, value in start.server_properties.items() if value and not isinstance(value, str)
    }
    assert unreadable == {}


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"AMQP\x00\x00\x0a\x00", id="0-10"),
        pytest.param(b"AMQP\x00\x01\x00\x00", id="1-0"),
        pytest.param(b"AMQP\x03\x01\x00\x00", id="1-0-sasl"),
        pytest.param(b"AMQP\x00\x00\x09\x02", id="0-9-2"),
        pytest.param(b"AMQP\x02\x00\x01\x01", id="class-2"),
        pytest.param(b"AMQP\xff\xff\xff\xff", id="all-ones"),
        pytest.param(b"amqp\x00\x00\x09\x01", id="lower-case"),
    ],
)
@REJECT
@rule("000", "4.2.2", "amq_wlp_header_03", "Unknown protocols are answered with a valid header and a close")
@rule(
    "000",
    "4.2.2",
    "amq_wlp_header_04",
    "A client can detect the server's version: the answer names it, the socket ends",
)
@rule(
    "001",
    "1.4.2.1",
    "connection.start/protocol-name",
    "A protocol that the server cannot support is answered with a valid header, then the socket is closed",
)
@rule(
    "001",
    "1.4.2.1",
    "connection.start/server-support",
    "The version that the server offers is not above the one asked for",
)
def test_unknown_header_is_answered_with_ours_and_a_close(raw: RawClient, header: bytes) -> None:
    raw.send_bytes(header)
    assert raw.read_bytes(8) == PROTOCOL_HEADER
    raw.expect_eof()


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", id="long-http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="tls"),
        pytest.param(b"\x00" * 8, id="zeros"),
    ],
)
@REJECT
@rule(
    "000",
    "4.2.2",
    "amq_wlp_header_02",
    "HTTP may be spoken to; this server answers it like any unknown protocol",
    "MAY",
)
def test_other_protocols_on_the_port(raw: RawClient, request_bytes: bytes) -> None:
    raw.send_bytes(request_bytes)
    assert raw.read_bytes(8) == PROTOCOL_HEADER
    raw.expect_eof()


@rabbitmq_differs("waits for eight octets and gives up after ten seconds without an answer")
@REJECT
def test_a_short_greeting_is_refused_too(raw: RawClient) -> None:
    raw.send_bytes(b"QUIT\n")
    assert raw.read_bytes(8) == PROTOCOL_HEADER
    raw.expect_eof()


@rule(
    "002",
    "4.2.2",
    "protocol-header/first",
    "The client must start with a protocol header; a frame is refused",
)
def test_frame_instead_of_header(connect: Callable[..., RawClient]) -> None:
    raw = connect(handshake=False)
    raw.start_ok()
    assert raw.read_bytes(8) == PROTOCOL_HEADER
    raw.expect_eof()


@rule("002", "4.2.2", "protocol-header/once", "The header starts a connection; a second one is no frame")
def test_second_header_is_a_framing_error(client: RawClient) -> None:
    client.send_bytes(PROTOCOL_HEADER)
    # "AMQP\0\0\9\1" reads as a frame of type 65 on channel 0x4D51 with 0x50000009 bytes: far too large.
    client.expect_close(501)
