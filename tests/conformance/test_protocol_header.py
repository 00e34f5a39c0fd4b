"""002, 4.2.2: how client and server agree on a protocol."""

import pytest
from pamqp import commands as spec

from tests.conformance.harness import PROTOCOL_HEADER, RawClient
from tests.conformance.rules import rule


@rule("002", "4.2.2", "protocol-header/accept", "AMQP 0 0 9 1 is answered with connection.start")
def test_header_of_0_9_1_is_answered_with_start(raw: RawClient) -> None:
    raw.send_bytes(PROTOCOL_HEADER)
    start = raw.expect(spec.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x0a\x00", b"GET / HTTP/1.1\r\n\r\n"]
)
@rule(
    "002",
    "4.2.2",
    "protocol-header/reject",
    "A header that the server does not know is answered with AMQP 0 0 9 1 and the end of the socket",
)
def test_unknown_header_is_answered_with_ours_and_a_close(raw: RawClient, header: bytes) -> None:
    raw.send_bytes(header)
    assert raw.read_bytes(8) == PROTOCOL_HEADER
    raw.expect_eof()
