"""The sans-IO core: scripted bytes in, bytes and messages out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.client.core.engine import HANDSHAKE
from embermq.client.core.heartbeat import Heartbeat
from embermq.client.core.request import Request
from embermq.client.core.requests import request_for
from embermq.client.errors import (
    AuthenticationFailed,
    ChannelClosed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
    NotFound,
)
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, content_frames, content_header, method_frame
from embermq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    QueueDeclare,
)
from tests.support.scripted_broker import FRAME_MAX, Future, Script, delivery, inbox

ROUTE = BasicPublish("", "key").encode()
NONE = b"\0\0"


def connected() -> Script:
    script = Script()
    script.connect()
    script.heard()
    return script


def test_the_handshake() -> None:
    script = Script(username="me", password="secret", virtual_host="v", heartbeat_s=7, name="x")
    script.engine.start()
    assert script.engine.take() == PROTOCOL_HEADER
    script.answer(0, ConnectionStart(mechanisms=b"AMQPLAIN PLAIN"))
    ((_, start_ok),) = script.heard()
    assert isinstance(start_ok, ConnectionStartOk)
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\0me\0secret")
    assert start_ok.client_properties["capabilities"]["connection.blocked"] is True  # type: ignore[index]
    script.answer(0, ConnectionTune(0, 1000000, 60))
    tune_ok, opening = script.heard_methods(0)
    assert tune_ok == ConnectionTuneOk(65535, 131072, 7)
    assert opening == ConnectionOpen("v")
    assert (script.engine.state, script.opened_count) == (HANDSHAKE, 0)


def test_a_mechanism_that_is_not_offered() -> None:
    script = Script(mechanism="EXTERNAL")
    script.engine.start()
    script.answer(0, ConnectionStart(mechanisms=b"PLAIN"))
    assert isinstance(script.end, AuthenticationFailed)
    assert "auth_mechanism" in str(script.end)


def test_a_refusal_during_the_handshake() -> None:
    script = Script()
    script.engine.start()
    script.answer(0, ConnectionStart(), ConnectionClose(403, "ACCESS_REFUSED - no"))
    assert isinstance(script.end, AuthenticationFailed)
    assert script.end.reply_code == 403
    assert ConnectionCloseOk() in script.heard_methods(0)


@pytest.mark.parametrize("data", [b"AMQP\x00\x01\x00\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_another_protocol(data: bytes) -> None:
    script = Script()
    script.engine.start()
    script.engine.feed(bytearray(data), len(data))
    assert isinstance(script.end, ConnectionFailed)
    assert "not AMQP 0-9-1" in str(script.end)


def test_a_handshake_that_takes_too_long() -> None:
    script = Script(connect_timeout_s=3)
    script.engine.start()
    heartbeat = Heartbeat(script.engine, 0.0)
    assert heartbeat.tick(2.9) is None
    assert isinstance(heartbeat.tick(3.1), ConnectionFailed)


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\x00\x01\x00\x00\x00\x01x!",  # no end mark
        method_frame(1, BasicQosOk()),  # answers nothing
        method_frame(1, BasicGetOk(1)),
        b"\x03\x00\x01\x00\x00\x00\x01x\xce",  # a body without a header
        b"\x02\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x00\xce",  # half a header
    ],
)
def test_nonsense_ends_the_transport_and_says_so(data: bytes) -> None:
    script = connected()
    script.channel()
    script.engine.feed(bytearray(data), len(data))
    assert isinstance(script.end, ConnectionLost)
    closes = [method for method in script.heard_methods(0) if isinstance(method, ConnectionClose)]
    assert closes and closes[0].reply_code in (501, 502, 505)


# -- deliveries

bodies = st.lists(st.binary(max_size=3 * FRAME_MAX), min_size=1, max_size=6)


@settings(max_examples=60)
@given(bodies=bodies, cuts=st.lists(st.integers(1, 6000), max_size=20), data=st.data())
def test_deliveries_however_they_are_cut(bodies: list[bytes], cuts: list[int], data: st.DataObject) -> None:
    script = connected()
    channel = script.channel()
    boxes = {tag: inbox(channel, tag) for tag in ("a", "b")}
    expected: dict[str, list[tuple[int, bytes, str]]] = {"a": [], "b": []}
    stream = b""
    for number, body in enumerate(bodies, start=1):
        tag = data.draw(st.sampled_from("ab"))
        key = data.draw(st.sampled_from(["key", "other key", ""]))
        expected[tag].append((number, body, key))
        stream += delivery(1, tag, number, body, key=key)
    pending = b""
    for cut in [*cuts, len(stream)]:
        pending += stream[:cut]
        stream = stream[cut:]
        used = script.engine.feed(bytearray(pending), len(pending))
        pending = pending[used:]
    assert pending == b""
    for tag, box in boxes.items():
        got = [(message.delivery_tag, message.body, message.routing_key) for message in box.messages]
        assert got == expected[tag]
        assert all(message.consumer_tag == tag and message.exchange == "exchange" for message in box.take())


def test_messages_settle_once_and_only_in_their_epoch() -> None:
    script = connected()
    channel = script.channel()
    box = inbox(channel)
    script.say(b"".join(delivery(1, "tag", number, b"x") for number in range(1, 5)))
    first, second, third, fourth = box.take()
    first.ack()
    first.nack()
    second.nack(requeue=False)
    third.reject(requeue=True)
    assert script.heard_methods(1) == [BasicAck(1), BasicNack(2, False, False), BasicReject(3, True)]
    script.engine.lost(ConnectionLost("gone"), final=False)
    script.connect()
    script.heard()
    assert fourth.stale
    fourth.ack()
    assert script.heard() == []


def test_without_acks_nothing_is_settled_and_nothing_forgotten() -> None:
    script = connected()
    box = inbox(script.channel(), no_ack=True)
    script.say(delivery(1, "tag", 1, b"kept"))
    box.messages[0].ack()
    assert script.heard() == []
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert [message.body for message in box.take()] == [b"kept"]


def test_a_batch_is_acked_at_once_only_when_that_settles_nothing_else() -> None:
    script = connected()
    channel = script.channel()
    box = inbox(channel)
    script.say(b"".join(delivery(1, "tag", number, b"x") for number in range(1, 10)))
    messages = box.take()
    channel.ack_batch(messages[:3])
    assert script.heard_methods(1) == [BasicAck(3, True)]
    channel.ack_batch(messages[4:6])  # the fourth is still being worked on
    assert script.heard_methods(1) == [BasicAck(5), BasicAck(6)]
    channel.ack_batch(messages[3:4])
    channel.ack_batch(messages[:3])  # settled already
    channel.ack_batch([])
    assert script.heard_methods(1) == [BasicAck(4, True)]


def test_a_batch_out_of_order_settles_nothing_else() -> None:
    script = connected()
    channel = script.channel()
    box = inbox(channel)
    script.say(b"".join(delivery(1, "tag", number, b"x") for number in range(1, 6)))
    first, second, third, fourth, fifth = box.take()
    channel.ack_batch([first, fifth, third])
    assert script.heard_methods(1) == [BasicAck(1), BasicAck(5), BasicAck(3)]
    channel.ack_batch([second])
    assert script.heard_methods(1) == [BasicAck(2, True)]
    assert not fourth.settled


def test_a_batch_over_a_reconnection_settles_nothing_else() -> None:
    script = connected()
    channel = script.channel()
    box = inbox(channel)
    script.say(delivery(1, "tag", 1, b"old"))
    (old,) = box.take()
    script.engine.lost(ConnectionLost("gone"), final=False)
    script.connect()
    script.heard()
    script.say(delivery(1, "tag", 1, b"old, again") + delivery(1, "tag", 2, b"new"))
    again, new = box.take()
    channel.ack_batch([old, new])  # the first delivery of this connection is still being worked on
    assert script.heard_methods(1) == [BasicAck(2)]
    channel.ack_batch([again])
    assert script.heard_methods(1) == [BasicAck(1, True)]


def test_the_shell_is_woken_once_until_it_has_sent() -> None:
    script = connected()
    box = inbox(script.channel())
    script.say(b"".join(delivery(1, "tag", number, b"x") for number in range(1, 4)))
    before = script.woken
    for message in box.take():
        message.ack()
    assert script.woken == before + 1
    assert len(script.heard()) == 3


def test_too_much_unread_stops_the_reading() -> None:
    script = connected()
    box = inbox(script.channel(), no_ack=True)
    body = b"x" * 1_000_000
    for number in range(40):
        script.say(delivery(1, "tag", number, body))
    assert script.engine.congested is box
    assert len(script.engine.taken(box)) == 40
    assert script.engine.congested is None


# -- requests and closing


def test_answers_come_in_the_order_of_the_questions() -> None:
    script = connected()
    channel = script.channel()
    first, second, third = Future(), Future(), Future()
    request = request_for(channel, BasicQos(0, 5))
    request.waiter = first
    channel.request(request)
    for future in (second, third):
        request = request_for(channel, BasicGet("queue"))
        request.waiter = future
        channel.request(request)
    script.answer(1, BasicQosOk(), BasicGetEmpty(), BasicGetOk(1, False, "", "key", 8))
    assert (first.result, second.over, second.result, third.over) == (BasicQosOk(), True, None, False)
    script.say(content_frames(1, content_header(2, NONE), b"it", FRAME_MAX))
    assert (third.result.body, third.result.message_count) == (b"it", 8)  # type: ignore[attr-defined]


def test_the_broker_closes_a_channel() -> None:
    script = connected()
    channel = script.channel()
    box, future = inbox(channel), Future()
    channel.request(Request(QueueDeclare("q", True), future))
    script.answer(1, ChannelClose(404, "NOT_FOUND - no queue 'q'", 50, 10))
    assert isinstance(future.error, NotFound)
    assert (future.error.method, future.error.reply_code) == ("queue.declare", 404)
    assert box.error is future.error
    assert ChannelCloseOk() in script.heard_methods(1)
    assert script.channel().number == 1


def test_we_close_a_channel_and_ignore_what_is_still_under_way() -> None:
    script = connected()
    channel = script.channel()
    box, future = inbox(channel), Future()
    channel.request(Request(ChannelClose(200, "bye"), future))
    script.say(delivery(1, "tag", 1, b"late") + method_frame(1, ChannelCloseOk()))
    assert future.over
    assert isinstance(channel.error, ChannelClosed)
    assert isinstance(box.error, ChannelClosed)
    script.say(delivery(1, "tag", 2, b"later"))  # a channel that is not there


def test_the_broker_cancels_a_consumer() -> None:
    script = connected()
    channel = script.channel()
    box = inbox(channel)
    script.answer(1, BasicCancel("tag", True), BasicCancel("unknown", True))
    assert box.error is not None and "queue" in str(box.error)
    assert channel.consumers == {}


def test_blocked_and_unblocked() -> None:
    script = connected()
    script.answer(0, ConnectionBlocked("low on memory"))
    assert script.engine.blocked_reason == "low on memory"
    script.answer(0, ConnectionUnblocked())
    assert script.engine.blocked_reason is None
    assert script.events == [("blocked", "low on memory"), ("unblocked", None)]


def test_channel_numbers_run_out() -> None:
    script = Script(channel_max=2)
    script.connect()
    script.channel()
    script.channel()
    with pytest.raises(ConnectionClosed, match="all 2 channels"):
        script.engine.open_channel(Request(ChannelOpen()), confirming=False)


# -- the clock


def test_heartbeats() -> None:
    script = connected()
    engine = script.engine
    assert engine.heartbeat_s == 60
    heartbeat = Heartbeat(engine, 0.0)
    assert heartbeat.tick(0.0) is None
    assert heartbeat.tick(29.0) is None
    assert engine.take() == b""
    assert heartbeat.tick(30.0) is None
    assert engine.take() == HEARTBEAT_FRAME
    script.say(HEARTBEAT_FRAME)
    assert heartbeat.tick(100.0) is None
    assert heartbeat.tick(220.0) is None
    lost = heartbeat.tick(221.0)
    assert isinstance(lost, ConnectionLost) and "two heartbeats" in str(lost)


def test_no_heartbeats_when_they_are_switched_off() -> None:
    script = Script(heartbeat_s=0)
    script.connect()
    heartbeat = Heartbeat(script.engine, 0.0)
    assert heartbeat.tick(0.0) is None and heartbeat.tick(100_000.0) is None


def test_blocked_for_too_long() -> None:
    script = Script(blocked_timeout_s=5, heartbeat_s=0)
    script.connect()
    heartbeat = Heartbeat(script.engine, 0.0)
    script.answer(0, ConnectionBlocked("disk"))
    assert heartbeat.tick(1.0) is None
    end = heartbeat.tick(6.0)
    assert isinstance(end, ConnectionClosed) and "disk" in str(end)  # for good: no new connection is tried
