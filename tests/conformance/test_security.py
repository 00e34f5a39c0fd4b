"""Hostile and broken clients: pauses, time limits, log lines (002, 4.10; 001, 1.4.2.10)."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import (
    PROTOCOL_HEADER,
    REPLY_SECONDS_MAX,
    Closed,
    RawChannel,
    RawClient,
    Silence,
)
from tools.brokers import Broker

Connect = Callable[..., RawClient]

LOGGED = rule(
    "002",
    "4.10.2",
    "errors/logged",
    "The server logs exceptions, so that an operator finds their cause",
    "SHOULD",
)


def wait_for_log(broker: Broker, *words: str) -> None:
    """A line with all these words appears in the broker's log."""
    deadline = time.monotonic() + REPLY_SECONDS_MAX
    while time.monotonic() < deadline:
        files = [broker.log_path, *(broker.data_dir / "log").glob("*.log")]
        text = "".join(file.read_text(errors="replace") for file in files if file.exists())
        # RabbitMQ spreads one event over several lines; a line of ours holds all of it.
        events = text.replace("\n ", " ").replace(":\n", ": ").splitlines()
        if any(all(word in event for word in words) for event in events):
            return
        time.sleep(0.1)
    raise AssertionError(f"no log line with {words}")


def port_of(client: RawClient) -> str:
    return f":{client.socket.getsockname()[1]}"


@pytest.mark.parametrize(
    "provoke",
    [
        pytest.param(lambda client: client.start_ok(password="wrong", properties={}), id="wrong-password"),
        pytest.param(lambda client: client.send_method(0, 10, 11, b"\x00"), id="syntax-error"),
        pytest.param(lambda client: client.send_frame(1, 0, b"x", size=1 << 24), id="oversized-data"),
    ],
)
@rule(
    "002",
    "4.10.2",
    "negotiation/pause",
    "Errors during negotiation are answered by a pause, then the end",
    "SHOULD",
)
def test_pause_before_the_end(raw: RawClient, provoke: Callable[[RawClient], None]) -> None:
    raw.open_protocol()
    began = time.monotonic()
    provoke(raw)
    raw.expect_eof()
    # A lower bound only: guessing passwords must cost time.
    assert time.monotonic() - began >= 0.4


@rule("002", "4.10.2", "negotiation/pause-is-private", "The pause of one client does not delay the others")
def test_pause_does_not_hold_up_others(connect: Connect) -> None:
    # A broker that sleeps while it pauses would end every guesser before it serves the next client. The
    # machine may be slow, too, and the pauses over before we look: one good round of many is proof enough.
    for _ in range(30):
        guesser = connect(handshake=False)
        guesser.open_protocol()
        guesser.start_ok(password="wrong", properties={})
        connect().channel(1).sync()
        try:
            guesser.read_frame(0.01)
        except Silence:
            return
        except Closed:
            continue
    raise AssertionError("others were served only after the pause was over")


@rule(
    "002",
    "4.10.2",
    "negotiation/time-limit",
    "Who does not finish the handshake in time is disconnected",
    "MAY",
)
def test_unfinished_handshakes_end(connect: Connect) -> None:
    silent, greeted, half_way = (connect(handshake=False) for _ in range(3))
    greeted.send_bytes(PROTOCOL_HEADER[:5])
    half_way.open_protocol()
    for client in (silent, greeted, half_way):
        client.expect_eof()


@LOGGED
@rule(
    "002",
    "4.2.3",
    "frame-end/logged",
    "A wrong frame-end is logged: it shows a mistake in somebody's framing code",
    "SHOULD",
)
def test_framing_errors_are_logged(broker: Broker, client: RawClient) -> None:
    client.send_frame(1, 1, b"\x00\x14\x00\x0a\x00", end=0)
    wait_for_log(broker, port_of(client), "frame_end")


@LOGGED
def test_refused_logins_are_logged(broker: Broker, raw: RawClient) -> None:
    raw.open_protocol()
    raw.start_ok(user="intruder", password="wrong")
    raw.expect_close(403)
    wait_for_log(broker, port_of(raw), "refused")


@rule(
    "001",
    "1.4.2.10",
    "connection.close-ok/reporting",
    "A socket that ends without close-ok is logged",
    "SHOULD",
)
@rule(
    "001",
    "1.5.2.6",
    "channel.close-ok/reporting",
    "A socket that ends with channels open is logged",
    "SHOULD",
)
def test_sockets_that_end_without_a_close_are_logged(broker: Broker, client: RawClient) -> None:
    client.channel(1).sync()
    port = port_of(client)
    client.drop()
    wait_for_log(broker, port, "closed")


@rule("002", "4.2.7", "heartbeat/logged", "A connection that missed its heartbeats is logged", "SHOULD")
def test_missed_heartbeats_are_logged(broker: Broker, connect: Connect) -> None:
    client = connect(heartbeat=1)
    client.expect_eof()
    wait_for_log(broker, port_of(client), "missed heartbeats")


@rule(
    "002",
    "4.10.1",
    "connection-limits",
    "Invalid data ends the channel or connection it came on and nothing else",
)
def test_garbage_harms_nobody_else(connect: Connect) -> None:
    witness = connect().channel(1)
    queue = witness.declare()
    for garbage in (
        b"\x00" * 100,
        b"\xff" * 100,
        b"\x01\x00\x01\x00\x00\x00\x04\xff\xff\xff\xff\xce",
        bytes(range(256)),
    ):
        broken = connect()
        broken.channel(1)
        broken.send_bytes(garbage)
        with suppress(Closed):
            assert isinstance(broken.next_frame().value, spec.Connection.Close)
    witness.publish(b"still here", routing_key=queue)
    message = witness.get(queue)
    assert message is not None
    assert message.body == b"still here"


@rule("002", "2.2.3", "no-confirmations", "Success is silent: asynchronous methods have no reply")
def test_asynchronous_methods_are_not_answered(channel: RawChannel) -> None:
    queue = channel.declare()
    for _ in range(3):
        channel.publish(b"x", routing_key=queue)
    for tag in (1, 2):
        message = channel.get(queue, no_ack=False)
        assert message is not None
        assert message.delivery_tag == tag
    channel.ack(1)
    channel.send(spec.Basic.Reject(delivery_tag=2, requeue=False))
    channel.sync()  # its reply must be the very next frame
    assert channel.depth(queue) == 1
