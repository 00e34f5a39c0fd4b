"""Which methods may come when on an open connection, and on which channel (001, 1.2 and 1.4; 002, 4.2.3)."""

from collections.abc import Callable

import pytest
from pamqp import base, body, header
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, long_string, short_string

IN_STATE = "CHANNEL_ERROR - unexpected method in connection state running"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"


def name_of(method: base.Frame) -> str:
    return method.name


@pytest.mark.parametrize(
    "method",
    [
        spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"),
        spec.Connection.SecureOk("x"),
        spec.Connection.TuneOk(1, 4096, 0),
        spec.Connection.Open(),
        spec.Connection.CloseOk(),
    ],
    ids=name_of,
)
@rule("001", "1.4", "connection/grammar", "Methods of the handshake are refused once the connection is open")
def test_handshake_methods_on_an_open_connection(client: RawClient, method: base.Frame) -> None:
    client.send(method)
    client.expect_close(504, IN_STATE, type(method))
    client.expect_eof()


@pytest.mark.parametrize(
    "method",
    [
        spec.Connection.Start(),
        spec.Connection.Secure("x"),
        spec.Connection.Tune(1, 4096, 0),
        spec.Connection.OpenOk(),
        spec.Connection.Blocked("x"),
        spec.Connection.Unblocked(),
    ],
    ids=name_of,
)
@rule("001", "1.4.1", "connection/direction", "Methods that only a client accepts are refused by the server")
def test_connection_methods_of_the_server(client: RawClient, method: base.Frame) -> None:
    client.send(method)
    client.expect_close(504, IN_STATE, type(method))
    client.expect_eof()


@pytest.mark.parametrize(
    "method",
    [
        spec.Channel.Open(),
        spec.Channel.Close(200, "", 0, 0),
        spec.Queue.Declare(queue="zero"),
        spec.Exchange.Declare(exchange="zero"),
        spec.Basic.Qos(),
        spec.Tx.Select(),
        spec.Confirm.Select(),
    ],
    ids=name_of,
)
@rule(
    "002",
    "4.2.3",
    "channel-zero/methods",
    "Channel 0 is for the connection; other classes' methods are refused there",
)
def test_other_classes_on_channel_zero(client: RawClient, method: base.Frame) -> None:
    client.send(method, 0)
    client.expect_close(504, IN_STATE, type(method))
    client.expect_eof()


@pytest.mark.parametrize(
    "content", [header.ContentHeader(body_size=1), body.ContentBody(b"x")], ids=["header", "body"]
)
@rule("002", "4.2.3", "channel-zero/content", "Content frames do not belong on channel 0")
def test_content_on_channel_zero(client: RawClient, content: object) -> None:
    client.send(content, 0)
    close = client.expect_close(505)
    assert close.reply_text.startswith("UNEXPECTED_FRAME - ")
    client.expect_eof()


@pytest.mark.parametrize(
    "method",
    [spec.Connection.Open(), spec.Connection.Close(200, "", 0, 0), spec.Connection.TuneOk(1, 4096, 0)],
    ids=name_of,
)
@rule(
    "002",
    "4.2.3",
    "channel-zero/connection-class",
    "A method of class connection on another channel is answered with 503",
)
def test_connection_methods_on_a_channel(channel: RawChannel, method: base.Frame) -> None:
    channel.send(method)
    channel.client.expect_close(503, UNIMPLEMENTED, type(method))
    channel.client.expect_eof()


@pytest.mark.parametrize(
    "method",
    [
        spec.Channel.OpenOk(),
        spec.Channel.FlowOk(True),
        spec.Channel.CloseOk(),
        spec.Exchange.DeclareOk(),
        spec.Queue.DeclareOk("q", 0, 0),
        spec.Queue.BindOk(),
        spec.Basic.QosOk(),
        spec.Basic.ConsumeOk("c"),
        spec.Basic.GetEmpty(),
        spec.Basic.RecoverOk(),
        spec.Tx.SelectOk(),
        spec.Confirm.SelectOk(),
    ],
    ids=name_of,
)
@rule(
    "001",
    "1.3",
    "methods/direction",
    "A method that only clients accept is answered with 503 (command invalid)",
)
@rule("001", "1.2", "command-invalid", "503: the client sent an invalid sequence of frames")
def test_methods_of_the_server(channel: RawChannel, method: base.Frame) -> None:
    channel.send(method)
    channel.client.expect_close(503, UNIMPLEMENTED, type(method))
    channel.client.expect_eof()


@pytest.mark.parametrize(
    "method",
    [
        spec.Basic.Deliver("c", 1, False, "", "k"),
        spec.Basic.GetOk(1, False, "", "k", 0),
        spec.Basic.Return(312, "", "", "k"),
    ],
    ids=name_of,
)
@rule("001", "1.3", "methods/direction-content", "Contents travel to the server in basic.publish only")
def test_content_methods_of_the_server(channel: RawChannel, method: base.Frame) -> None:
    channel.send(method)
    channel.send_header(0)
    channel.client.expect_close(503, UNIMPLEMENTED, type(method))
    channel.client.expect_eof()


@pytest.mark.parametrize(
    ("class_id", "method_id"), [(61440, 1), (50, 99), (70, 10), (80, 10), (0, 0), (60, 0xFFFF)]
)
@pytest.mark.parametrize("number", [0, 1])
@rabbitmq_differs("its reader crashes: the socket ends without a connection.close")
@rule(
    "002",
    "4.2.4",
    "method/unknown",
    "A class or method that the server does not know is a connection exception",
)
@rule(
    "001",
    "1.2",
    "not-implemented",
    "540: the client tried to use functionality that the server does not implement",
)
def test_unknown_methods(client: RawClient, number: int, class_id: int, method_id: int) -> None:
    client.channel(1)
    client.send_method(number, class_id, method_id)
    close = client.expect_close(540)
    assert (close.class_id, close.method_id) == (class_id, method_id)
    client.expect_eof()


@rule(
    "000",
    "access",
    "access.request",
    "Clients of 0-8 and 0-9 ask for a ticket first; any realm is granted one",
    "MAY",
)
def test_access_request_is_granted(channel: RawChannel) -> None:
    channel.send_method(30, 10, short_string("/data") + b"\x1f")
    frame = channel.client.next_frame()
    assert frame.payload[:4] == b"\x00\x1e\x00\x0b"
    assert len(frame.payload) == 6
    channel.sync()


@rule("004", "extensions", "connection.update-secret", "A new secret is accepted and confirmed")
def test_update_secret(client: RawClient) -> None:
    client.send_method(0, 10, 70, long_string("guest") + short_string("rotation"))
    client.expect(spec.Connection.UpdateSecretOk)
    client.channel(1).sync()


@rule(
    "002",
    "4.8.1",
    "connection-exception",
    "A connection exception ends all channels of the connection, and only these",
)
def test_connection_exception_spares_other_connections(connect: Callable[..., RawClient]) -> None:
    broken, other = connect(), connect().channel(1)
    for number in (1, 2, 3):
        broken.channel(number)
    broken.send(spec.Channel.Open(), 2)
    broken.expect_close_and_eof(504)
    other.sync()
