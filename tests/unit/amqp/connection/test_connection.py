"""A conversation says the same however its bytes are cut, and states follow each other as they must."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq import __version__
from embermq.amqp.connection.state import CLOSED, CLOSING, HEADER, OPEN, OPENING, SECURE, START, TUNE, Pause
from embermq.amqp.connection.transport import Limits
from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, content_header, frame, method_frame
from embermq.wire.properties import Properties
from tests.support.amqp_conversation import HANDSHAKE, Wire, frames_of, publish, split_frames, start_ok

COPIES_PER_TURN_MAX = 20_000  # in amqp/connection/link.py, where it is a number of C once compiled
TUNE_OK = methods.ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=30)


def whole_conversation() -> bytes:
    on_channel: list[methods.Method] = [
        methods.ChannelOpen(),
        methods.ConfirmSelect(),
        methods.QueueDeclare(queue="q", arguments={"x-max-length": 10}),
        methods.ExchangeDeclare(exchange="x", type="topic"),
        methods.QueueBind(queue="q", exchange="x", routing_key="a.#"),
    ]
    after: list[methods.Method] = [
        methods.BasicGet(queue="q"),
        methods.BasicGet(queue="q", no_ack=True),
        methods.BasicReject(delivery_tag=1, requeue=True),
        methods.BasicGet(queue="q"),
        methods.BasicAck(delivery_tag=3, multiple=False),
        methods.QueueDeclare(queue="nowhere", passive=True),  # ends channel 1 with 404
        methods.BasicGet(queue="q"),  # said by one who does not know that yet
        methods.ChannelCloseOk(),
        methods.ChannelOpen(),
        methods.QueueDelete(queue="q"),
    ]
    rich = Properties(headers={"a": [1, {"b": None}]}, delivery_mode=2, priority=7, message_id="m" * 50)
    return b"".join(
        [
            HANDSHAKE,
            frames_of(on_channel, 1),
            publish("q", b""),
            publish("a.b", b"x" * 1500, "x", rich, frame_max=400),
            HEARTBEAT_FRAME,
            publish("nowhere", b"returned", "x", mandatory=True),
            publish("q", b"small"),
            frames_of(after, 1),
            method_frame(0, methods.ConnectionClose(200, "bye", 0, 0)),
        ]
    )


CONVERSATION = whole_conversation()


def answer_to(pieces: list[bytes]) -> list[tuple[int, int, bytes]]:
    """What comes back, without the confirms: how many of these are one depends on the turns."""
    wire = Wire()
    for piece in pieces:
        wire.feed(piece)
    assert wire.closed_after_s == 0 and wire.connection.state == CLOSED
    return [f for f in split_frames(bytes(wire.sent)) if f[2][:4] != b"\x00\x3c\x00\x50"]


ANSWER = answer_to([CONVERSATION])


def cut_at(places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(CONVERSATION)]
    return [CONVERSATION[start:stop] for start, stop in pairwise(edges)]


def test_the_whole_conversation_at_once() -> None:
    ids = [int.from_bytes(f[2][:4], "big") for f in ANSWER if f[0] == 1]
    assert [methods.METHODS[method_id].__name__ for method_id in ids] == [
        "ConnectionStart",
        "ConnectionTune",
        "ConnectionOpenOk",
        "ChannelOpenOk",
        "ConfirmSelectOk",
        "QueueDeclareOk",
        "ExchangeDeclareOk",
        "QueueBindOk",
        "BasicReturn",
        "BasicGetOk",
        "BasicGetOk",
        "BasicGetOk",
        "ChannelClose",
        "ChannelOpenOk",
        "QueueDeleteOk",
        "ConnectionCloseOk",
    ]


def test_byte_by_byte() -> None:
    assert answer_to([CONVERSATION[at : at + 1] for at in range(len(CONVERSATION))]) == ANSWER


def test_cut_in_two_anywhere() -> None:
    for place in range(len(CONVERSATION)):
        assert answer_to(cut_at([place])) == ANSWER


@settings(max_examples=60)
@given(places=st.lists(st.integers(0, len(CONVERSATION)), max_size=30))
def test_cut_anyhow(places: list[int]) -> None:
    assert answer_to(cut_at(places)) == ANSWER


# -- the handshake, state by state


def test_a_handshake_step_by_step() -> None:
    wire = Wire(Limits(frame_max=50_000, channel_max=100, heartbeat_s=17))
    assert wire.connection.state == HEADER
    wire.feed(PROTOCOL_HEADER)
    assert wire.connection.state == START
    (start,) = wire.take_methods()
    assert isinstance(start, methods.ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == b"PLAIN AMQPLAIN SCRAM-SHA-256" and start.locales == b"en_US"
    assert start.server_properties["product"] == "EmberMQ"
    assert start.server_properties["version"] == __version__
    (tune,) = wire.say(start_ok())
    assert wire.connection.state == TUNE
    assert tune == methods.ConnectionTune(100, 50_000, 17)
    assert wire.say(methods.ConnectionTuneOk(0, 0, 5)) == []
    assert wire.connection.state == OPENING
    assert (wire.connection.channel_max, wire.connection.frame_max, wire.heartbeat_s) == (100, 50_000, 5)
    assert wire.say(methods.ConnectionOpen(virtual_host="/")) == [methods.ConnectionOpenOk()]
    assert wire.connection.state == OPEN
    assert wire.say(methods.ConnectionClose(200, "", 0, 0)) == [methods.ConnectionCloseOk()]
    assert wire.connection.state == CLOSED and wire.closed_after_s == 0


@pytest.mark.parametrize(
    "header", [b"GET / HTTP/1.1", b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"X"]
)
def test_strangers_are_told_what_we_speak(header: bytes) -> None:
    wire = Wire()
    wire.feed(header)
    assert bytes(wire.sent) == PROTOCOL_HEADER
    assert wire.connection.state == CLOSED and wire.closed_after_s == 0


@pytest.mark.parametrize("size", range(8))
def test_the_beginning_of_a_header_is_waited_on(size: int) -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER[:size])
    assert wire.connection.state == HEADER and not wire.sent
    wire.feed(PROTOCOL_HEADER[size:])
    assert wire.connection.state == START


def test_a_response_that_comes_later_is_asked_for() -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER)
    wire.take()
    assert wire.say(start_ok(response=b"")) == [methods.ConnectionSecure(b"")]
    assert wire.connection.state == SECURE
    (tune,) = wire.say(methods.ConnectionSecureOk(b"\0guest\0guest"))
    assert isinstance(tune, methods.ConnectionTune)


def test_a_wrong_password_is_told_to_those_who_understand() -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER)
    wire.take()
    (close,) = wire.say(start_ok(response=b"\0guest\0wrong"))
    assert isinstance(close, methods.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)
    assert close.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    assert wire.connection.state == CLOSED and wire.closed_after_s == 0


@pytest.mark.parametrize(
    "said",
    [
        start_ok(response=b"\0guest\0wrong", authentication_failure_close=False),
        start_ok(response=b"no NULs at all"),
        start_ok(mechanism="NO-SUCH"),
        start_ok(response=b"\x05LOGIN", mechanism="AMQPLAIN"),
        methods.ConnectionOpen(virtual_host="/"),
        methods.ConnectionTuneOk(0, 0, 0),
    ],
    ids=["unannounced", "no PLAIN", "mechanism", "no AMQPLAIN", "open too early", "tune too early"],
)
def test_other_mistakes_before_the_tune_are_a_pause_and_silence(said: methods.Method) -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER)
    wire.take()
    assert wire.say(said) == []
    assert wire.connection.state == CLOSED
    assert wire.closed_after_s is not None and wire.closed_after_s > 0


def test_guest_is_for_this_machine_only() -> None:
    wire = Wire(peer_address="192.0.2.1")
    wire.feed(PROTOCOL_HEADER)
    wire.take()
    (close,) = wire.say(start_ok())
    assert isinstance(close, methods.ConnectionClose) and close.reply_code == 403


@pytest.mark.parametrize(
    ("tune", "opened"),
    [
        (methods.ConnectionTuneOk(2047, 4095, 0), "negotiated frame_max = 4095 is lower than the minimum"),
        (
            methods.ConnectionTuneOk(2047, 131073, 0),
            "negotiated frame_max = 131073 is higher than the maximum",
        ),
        (
            methods.ConnectionTuneOk(2048, 131072, 0),
            "negotiated channel_max = 2048 is higher than the maximum",
        ),
    ],
)
def test_tunes_out_of_range(tune: methods.Method, opened: str, caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER)
    with caplog.at_level(logging.WARNING, "embermq.connection"):
        wire.say(start_ok())
        wire.say(tune)
    assert wire.connection.state == CLOSED
    assert opened in caplog.text


@pytest.mark.parametrize(
    ("vhost", "text"),
    [
        ("nowhere", "NOT_ALLOWED - vhost nowhere not found"),
        ("forbidden", "NOT_ALLOWED - access to vhost 'forbidden' refused for user 'guest'"),
    ],
)
def test_vhosts_that_are_not_to_be_had(vhost: str, text: str) -> None:
    wire = Wire()
    wire.feed(PROTOCOL_HEADER + frames_of([start_ok(), TUNE_OK]))
    wire.take()
    (close,) = wire.say(methods.ConnectionOpen(virtual_host=vhost))
    assert close == methods.ConnectionClose(530, text, 10, 40)


# -- errors


def test_a_channel_error_ends_the_channel_and_nothing_else() -> None:
    wire = Wire().open()
    (close,) = wire.say(methods.QueueDeclare(queue="q", passive=True), channel=1)
    assert close == methods.ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)
    assert wire.say(methods.QueueDeclare(queue="q"), channel=1) == [], "nobody listens on a closing channel"
    assert wire.say(methods.ChannelCloseOk(), methods.ChannelOpen(), channel=1) == [methods.ChannelOpenOk()]
    assert wire.connection.state == OPEN


def test_a_connection_error_waits_for_the_answer_and_discards_the_rest() -> None:
    wire = Wire().open()
    (close,) = wire.say(methods.QueueDeclare(queue="q"), channel=2)
    assert isinstance(close, methods.ConnectionClose) and close.reply_code == 504
    assert wire.connection.state == CLOSING
    assert wire.say(methods.QueueDeclare(queue="q"), channel=1) == []
    assert "q" not in wire.broker.vhosts["/"].queues
    assert wire.say(methods.ConnectionCloseOk()) == []
    assert wire.connection.state == CLOSED and wire.closed_after_s == 0


def test_frames_out_of_order() -> None:
    cases = {
        "body without publish": frame(3, 1, b"x"),
        "header without publish": frame(2, 1, content_header(0, b"\0\0")),
        "method instead of header": method_frame(1, methods.BasicPublish()) * 2,
        "body instead of header": method_frame(1, methods.BasicPublish()) + frame(3, 1, b"x"),
        "ack instead of header": method_frame(1, methods.BasicPublish())
        + method_frame(1, methods.BasicAck(1)),
    }
    for name, data in cases.items():
        wire = Wire().open()
        wire.feed(data)
        (close,) = wire.take_methods()
        assert isinstance(close, methods.ConnectionClose) and close.reply_code == 505, name


def test_broken_framing_is_the_end() -> None:
    for data in (
        frame(1, 1, b"\0\x14\0\x0a\0")[:-1] + b"\xcd",
        b"\x01\0\1\xff\xff\xff\xff",
        frame(7, 1, b""),
    ):
        wire = Wire().open()
        wire.feed(data + frames_of([methods.QueueDeclare(queue="q")], 1))
        (close,) = wire.take_methods()
        assert isinstance(close, methods.ConnectionClose) and close.reply_code == 501
        assert wire.connection.state == CLOSED
        assert wire.broker.vhosts["/"].queues == {}


def test_a_fault_of_ours_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire().open()
    monkeypatch.setattr(wire.broker.vhosts["/"], "declare_queue", lambda *_, **__: 1 / 0)
    (close,) = wire.say(methods.QueueDeclare(queue="q"), channel=1)
    assert close == methods.ConnectionClose(541, "INTERNAL_ERROR - ZeroDivisionError", 50, 10)
    assert "a fault of ours" in caplog.text


def test_losing_the_socket_gives_everything_back() -> None:
    wire = Wire().open()
    wire.say(methods.QueueDeclare(queue="mine", exclusive=True), channel=1)
    wire.say(methods.QueueDeclare(queue="q"), channel=1)
    wire.feed(publish("q", b"1") + publish("q", b"2"))
    wire.say(methods.BasicGet(queue="q"), channel=1)
    queue = wire.broker.vhosts["/"].queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (1, 1)
    wire.connection.lost()
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    assert list(wire.broker.vhosts["/"].queues) == ["q"]


def test_output_that_is_held_leaves_before_the_socket_is_shut() -> None:
    """An -ok for something durable waits for the disk; a client that says goodbye at once still gets both."""
    wire = Wire().open()
    wire.connection.hold_output()
    wire.feed(
        frames_of([methods.QueueDeclare(queue="q")], 1) + frames_of([methods.ConnectionClose(200, "", 0, 0)])
    )
    assert not wire.sent and wire.closed_after_s is None
    wire.connection.release_output()
    wire.loop.run()
    assert [type(method).__name__ for method in wire.take_methods()] == [
        "QueueDeclareOk",
        "ConnectionCloseOk",
    ]
    assert wire.closed_after_s == 0


def test_replies_for_one_turn_have_a_bound_and_none_is_lost() -> None:
    wire = Wire().open()
    wire.say(methods.QueueDeclare(queue="q"), channel=1)
    wire.feed(publish("q", bytes(1024 * 1024), frame_max=131072))
    pair = [methods.BasicGet(queue="q"), methods.BasicNack(delivery_tag=0, multiple=True, requeue=True)]
    data = frames_of(pair * 20, 1)
    wire.feed_count = 0
    wire.feed(data, run=False)
    assert wire.connection.pauses == Pause.OUTPUT and wire.unfinished
    wire.loop.run()
    assert wire.feed_count > 3 and not wire.unfinished
    got = [method for method in wire.take_methods() if isinstance(method, methods.BasicGetOk)]
    assert [method.delivery_tag for method in got] == list(range(1, 21))


def test_a_message_for_many_queues_is_work_for_a_turn_and_what_follows_it_waits() -> None:
    """A few bytes make thousands of copies: others have their turn in between, and nothing is lost."""
    wire = Wire().open()
    queue_count, message_count = 500, 100
    for number in range(queue_count):
        wire.say(methods.QueueDeclare(queue=f"q{number}"), channel=1)
        wire.say(methods.QueueBind(queue=f"q{number}", exchange="amq.fanout"), channel=1)
    queues = wire.broker.vhosts["/"].queues.values()
    wire.feed_count = 0
    wire.feed(
        b"".join(publish("", b"%d" % number, exchange="amq.fanout") for number in range(message_count)), False
    )
    assert wire.connection.pauses == Pause.TURN and wire.unfinished
    while wire.loop.scheduled:
        copies = sum(queue.ready_count for queue in queues)
        assert copies <= wire.feed_count * (COPIES_PER_TURN_MAX + queue_count)
        wire.loop.run_once()
    assert wire.feed_count >= queue_count * message_count // (COPIES_PER_TURN_MAX + queue_count)
    assert not wire.unfinished
    for queue in queues:
        assert [bytes(message.body) for message in queue.messages()] == [
            b"%d" % n for n in range(message_count)
        ]
