"""Heartbeats in both directions (002, 2.3.5.3 and 4.2.7)."""

import time
from collections.abc import Callable

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import FRAME_HEARTBEAT, Closed, RawChannel, RawClient, Silence, unique
from tests.support.raw_frames import describe

Connect = Callable[..., RawClient]

SENT = rule(
    "002",
    "4.2.7",
    "heartbeat/sent",
    "A peer sends heartbeats at the agreed interval while it is otherwise silent",
)
MISSED = rule(
    "002",
    "4.2.7",
    "heartbeat/missed",
    "Silence for two intervals or more ends the connection without a close handshake",
    "SHOULD",
)
ANY_OCTET = rule(
    "002", "4.2.7", "heartbeat/any-octet", "Any octet sent is a valid substitute for a heartbeat"
)
INVALID = rule(
    "002", "4.2.7", "heartbeat/channel", "A heartbeat on another channel than 0 is answered with 501"
)


def expect_heartbeat(client: RawClient) -> None:
    frame = client.read_frame()
    assert frame.kind == FRAME_HEARTBEAT, describe(frame)


def stay_alive(client: RawClient, seconds: float, beat: Callable[[int], None]) -> None:
    """Call `beat` four times an interval of 2 s, and read what comes so that the broker can keep sending."""
    for number in range(int(seconds / 0.5)):
        beat(number)
        time.sleep(0.5)
    try:
        while True:
            client.read_frame(0.01)
    except Silence:
        pass


@SENT
@rule("001", "1.4.2.6.3", "connection.tune-ok.heartbeat", "The delay that the client asks for is used")
def test_server_sends_heartbeats(connect: Connect) -> None:
    client = connect(heartbeat=2)
    for _ in range(3):
        client.send_heartbeat()
        expect_heartbeat(client)


@SENT
def test_server_sends_heartbeats_after_traffic(connect: Connect) -> None:
    client = connect(heartbeat=2)
    client.channel(1).sync()
    expect_heartbeat(client)


@rule(
    "002",
    "4.2.7",
    "heartbeat/start",
    "The server starts to send and to monitor when it has tune-ok",
    "SHOULD",
)
def test_heartbeats_start_with_tune_ok(raw: RawClient) -> None:
    raw.login()
    raw.tune_ok(heartbeat=1)
    expect_heartbeat(raw)


@rule(
    "002", "4.2.7", "heartbeat/not-before-tune", "Before tune-ok there is nothing agreed and nothing is sent"
)
def test_no_heartbeat_before_tune_ok(raw: RawClient) -> None:
    raw.login()
    with pytest.raises(Silence):
        raw.read_frame(2.5)


@rule(
    "001",
    "1.4.2.6.3",
    "connection.tune-ok.heartbeat/zero",
    "Zero means no heartbeats: none are sent, none are missed",
)
def test_no_heartbeats_with_zero(connect: Connect) -> None:
    client = connect(heartbeat=0)
    channel = client.channel(1)
    with pytest.raises(Silence):
        client.read_frame(3.0)
    channel.sync()


@rule(
    "000",
    "4.2.9",
    "amq_wlp_heartbeat_02",
    "A peer that does not support heartbeats discards them without an error",
)
@rule(
    "002",
    "4.2.7",
    "heartbeat/discarded",
    "Heartbeats that were not agreed upon are discarded without an error",
)
def test_heartbeats_that_were_not_agreed_upon(client: RawClient) -> None:
    channel = client.channel(1)
    for _ in range(10):
        client.send_heartbeat()
    channel.sync()


@rule("002", "4.2.7", "heartbeat/any-time", "A heartbeat may be sent at any time, during the handshake too")
def test_heartbeats_during_the_handshake(raw: RawClient) -> None:
    raw.open_protocol()
    raw.send_heartbeat()
    raw.start_ok()
    raw.tune = raw.expect(spec.Connection.Tune)
    raw.send_heartbeat()
    raw.tune_ok()
    raw.send_heartbeat()
    raw.open_vhost()
    raw.channel(1).sync()


@rule("002", "4.2.7", "heartbeat/within-content", "A heartbeat may come between the frames of a content")
def test_heartbeats_within_a_content(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    channel.client.send_heartbeat()
    channel.send_header(2)
    channel.client.send_heartbeat()
    channel.send_body(b"a")
    channel.client.send_heartbeat()
    channel.send_body(b"b")
    message = channel.get(queue)
    assert message is not None
    assert message.body == b"ab"


@MISSED
def test_silent_client_is_dropped_without_a_close(connect: Connect) -> None:
    client = connect(heartbeat=1)
    client.channel(1)
    with pytest.raises(Closed):
        while True:
            frame = client.read_frame()
            assert frame.kind == FRAME_HEARTBEAT, describe(frame)


@MISSED
def test_what_a_silent_client_held_is_given_back(connect: Connect) -> None:
    other = connect().channel(1)
    queue = other.declare(unique(), exclusive=False, auto_delete=True)
    other.publish(b"x", routing_key=queue)
    other.sync()
    silent = connect(heartbeat=1)
    held = silent.channel(1).get(queue, no_ack=False)
    assert held is not None
    other.consume(queue)
    # Nobody speaks for the silent client: its message comes back when the broker gives it up.
    message = other.delivery()
    assert message.redelivered
    assert message.body == b"x"


@MISSED
def test_silence_before_open_is_noticed_too(raw: RawClient) -> None:
    raw.login()
    raw.tune_ok(heartbeat=1)
    raw.expect_eof()


@rule("002", "4.2.7", "heartbeat/alive", "A client that sends its heartbeats stays connected")
def test_heartbeats_keep_a_connection(connect: Connect) -> None:
    client = connect(heartbeat=2)
    channel = client.channel(1)
    stay_alive(client, 7, lambda _: client.send_heartbeat())
    channel.sync()


@ANY_OCTET
def test_methods_keep_a_connection(connect: Connect) -> None:
    client = connect(heartbeat=2)
    channel = client.channel(1)
    stay_alive(client, 7, lambda _: channel.send(spec.Basic.Qos()))
    channel.sync()


@ANY_OCTET
def test_pieces_of_a_frame_keep_a_connection(connect: Connect) -> None:
    client = connect(heartbeat=2)
    channel = client.channel(1)
    queue = channel.declare()
    data = b"0123456789abcdef"
    channel.publish_method(routing_key=queue)
    channel.send_header(len(data))
    frame = b"\x03\x00\x01\x00\x00\x00\x10" + data + b"\xce"
    # 24 octets in 12 pieces, six seconds for one frame: no heartbeat, but the stream lives.
    stay_alive(client, 6, lambda number: client.send_bytes(frame[number * 2 : number * 2 + 2]))
    message = channel.get(queue)
    assert message is not None
    assert message.body == data


@rabbitmq_differs("answers 505 (unexpected frame)")
@INVALID
@rule("000", "4.2.9", "amq_wlp_heartbeat_01", "Heartbeats have channel number zero, else 501")
@pytest.mark.parametrize("number", [1, 5], ids=["open-channel", "other-channel"])
def test_heartbeat_on_another_channel(client: RawClient, number: int) -> None:
    client.channel(1)
    client.send_frame(FRAME_HEARTBEAT, number, b"")
    client.expect_close_and_eof(501)


@rule("002", "4.2.7", "heartbeat/empty", "A heartbeat has no payload; one that has is malformed (501)")
def test_heartbeat_with_a_payload(client: RawClient) -> None:
    client.send_frame(FRAME_HEARTBEAT, 0, b"alive")
    client.expect_close_and_eof(501)


@rule("002", "4.2.7", "heartbeat/until-the-end", "Heartbeats go on during the close handshake", "SHOULD")
def test_heartbeats_go_on_while_closing(connect: Connect) -> None:
    client = connect(heartbeat=2)
    client.send(spec.Channel.Open(), 1)
    client.expect(spec.Channel.OpenOk, 1)
    client.send(spec.Channel.Open(), 1)
    client.expect_close(504, answer=False)
    expect_heartbeat(client)
    client.send(spec.Connection.CloseOk())
    client.expect_eof()
