"""connection.close and close-ok, in both directions (001, 1.4.2.9 and 1.4.2.10; 002, 2.3.7)."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pamqp import base
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, unique

Connect = Callable[..., RawClient]
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

DISCARD = rule(
    "001",
    "1.4.2.9",
    "connection.close/stability",
    "After sending close, everything received but close and close-ok is discarded",
)


@rule("001", "1.4.2.9", "connection.close/confirmed", "close is answered with close-ok")
@rule(
    "002",
    "2.2.4",
    "connection-lifecycle/close",
    "One peer ends the connection (close), the other shakes hands (close-ok)",
)
def test_close_is_answered_with_close_ok(client: RawClient) -> None:
    client.send(spec.Connection.Close(200, "Goodbye", 0, 0))
    client.expect(spec.Connection.CloseOk)
    client.finish_sending()
    client.expect_eof()


@rabbitmq_differs("leaves the closing to the client for 30 seconds")
@rule(
    "001",
    "1.4.2.10",
    "connection.close-ok/release",
    "After close-ok resources are released and the socket is closed",
)
def test_server_closes_the_socket_after_close_ok(client: RawClient) -> None:
    client.send(spec.Connection.Close(200, "Goodbye", 0, 0))
    client.expect(spec.Connection.CloseOk)
    client.expect_eof()


@pytest.mark.parametrize("code", [0, 200, 320, 404, 541, 65535])
@rule("001", "1.4.2.9.1", "connection.close.reply-code", "A client may give any reason for its close")
def test_any_reply_code(client: RawClient, code: int) -> None:
    client.send(spec.Connection.Close(code, "x" * 255, 60, 40))
    client.expect(spec.Connection.CloseOk)


@rule("001", "1.4.2.10", "connection.close-ok/heard", "close-ok reaches a client that goes on talking")
def test_close_ok_reaches_a_client_that_goes_on_talking(connect: Connect) -> None:
    """To shut a socket while something unread is on its way resets it, and our last words would be lost."""
    for _ in range(5):
        client = connect()
        client.send(spec.Connection.Close(200, "Goodbye", 0, 0))
        for _ in range(20):
            client.send_bytes(HEARTBEAT * 5000)
        client.expect(spec.Connection.CloseOk)
        client.expect_eof()


@rule(
    "002", "2.3.7", "close/busy", "A connection with busy channels can be closed: close-ok is the last frame"
)
def test_close_amid_deliveries(connect: Connect) -> None:
    client = connect()
    channel = client.channel(1)
    queue = channel.declare()
    for _ in range(500):
        channel.publish(b"x" * 1000, routing_key=queue)
    channel.send(spec.Basic.Consume(queue=queue, no_ack=True))
    client.send(spec.Connection.Close(200, "", 0, 0))
    while not isinstance(client.next_frame().value, spec.Connection.CloseOk):
        pass
    client.finish_sending()
    client.expect_eof()


@rule("002", "2.3.7", "close/mid-content", "A client may close the connection amid a content")
def test_close_amid_a_content(channel: RawChannel) -> None:
    channel.publish_method(routing_key="x")
    channel.send_header(10)
    channel.client.send(spec.Connection.Close(200, "", 0, 0))
    channel.client.expect(spec.Connection.CloseOk)


@DISCARD
def test_methods_after_a_connection_exception_are_discarded(connect: Connect) -> None:
    client, observer = connect(), connect().channel(1)
    client.channel(1)
    client.channel(2)
    queue = unique()
    client.send(spec.Channel.Open(), 1)
    client.expect_close(504, "CHANNEL_ERROR - second 'channel.open' seen", spec.Channel.Open, answer=False)
    for number in (1, 2, 3):
        client.send(spec.Channel.Open(), 3)
        client.send(spec.Queue.Declare(queue=queue), number)
    client.send(spec.Connection.CloseOk())
    client.expect_eof()
    observer.call_fails(spec.Queue.Declare(queue=queue, passive=True), 404)


@DISCARD
def test_contents_after_a_connection_exception_are_discarded(connect: Connect) -> None:
    client, observer = connect(), connect().channel(1)
    queue = observer.declare(unique(), exclusive=False, auto_delete=True)
    channel = client.channel(1)
    channel.publish(b"before", routing_key=queue)
    channel.sync()
    channel.send(spec.Channel.Open())
    for _ in range(100):
        channel.publish(b"x" * 10_000, routing_key=queue, chunk=1000)
    client.expect_close_and_eof(504)
    message = observer.get(queue)
    assert message is not None
    assert message.body == b"before"
    assert observer.get(queue) is None
    observer.call(spec.Queue.Delete(queue=queue))


@rule(
    "001",
    "1.4.2.9",
    "connection.close/crossing",
    "A close received after sending close is answered with close-ok",
)
def test_crossing_closes(client: RawClient) -> None:
    client.channel(1)
    client.send(spec.Channel.Open(), 1)
    client.expect_close(504, answer=False)
    client.send(spec.Connection.Close(200, "", 0, 0))
    client.expect(spec.Connection.CloseOk)
    client.send(spec.Connection.CloseOk())
    client.finish_sending()
    client.expect_eof()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (spec.Channel.Open(), 504),
        (spec.Channel.FlowOk(True), 503),
        (spec.Connection.Open(), 503),
    ],
    ids=["channel.open", "flow-ok", "connection.open"],
)
@rule(
    "001",
    "1.4.2.9",
    "connection.close/exception",
    "The close of an exception names the method that caused it",
)
@rule("001", "1.4.2.9.3", "connection.close.class-id", "class-id is the class of the failed method")
@rule("001", "1.4.2.9.4", "connection.close.method-id", "method-id is the number of the failed method")
def test_close_names_the_method(channel: RawChannel, request_: base.Frame, code: int) -> None:
    channel.send(request_)
    channel.client.expect_close(code, method=type(request_))


@rule("001", "1.4.2.9.2", "connection.close.reply-text", "The reply text starts with the constant's name")
def test_reply_text(channel: RawChannel) -> None:
    channel.send(spec.Channel.Open())
    close = channel.client.expect_close(504)
    assert close.reply_text == "CHANNEL_ERROR - second 'channel.open' seen"


@rule(
    "001",
    "1.4.2.10",
    "connection.close-ok",
    "close-ok after the server's close: the server closes the socket",
)
def test_close_ok_ends_the_socket(client: RawClient) -> None:
    client.send(spec.Queue.Declare(queue="x"), 9)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", answer=False)
    client.send(spec.Connection.CloseOk())
    client.expect_eof()


@rule(
    "001",
    "1.2",
    "connection-forced",
    "320: an operator closes the connection, for instance by stopping the server",
)
def test_stopping_the_broker_closes_connections(start_broker: Callable[..., Any]) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.handshake()
        client.channel(1)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        try:
            client.expect_close(
                320,
                "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
                answer=False,
            )
        finally:
            client.drop()
            stopping.join()


@rule(
    "002",
    "4.5",
    "connection/socket-closed",
    "A socket that ends without close frees everything the connection held",
)
@pytest.mark.parametrize("how", ["drop", "drop_hard"])
def test_dropped_socket(connect: Connect, how: str) -> None:
    client, other = connect(), connect()
    queue = client.channel(1).declare(unique(), exclusive=True)
    getattr(client, how)()
    for number in range(1, 1000):
        probe = other.channel(number)
        probe.send(spec.Queue.Declare(queue=queue, passive=True))
        close = probe.expect(spec.Channel.Close)
        probe.send(spec.Channel.CloseOk())
        if close.reply_code == 404:
            return
        assert close.reply_code == 405, close.reply_text  # still locked: the server has not noticed yet
        time.sleep(0.01)
    raise AssertionError("the exclusive queue of a dead connection is still there")
