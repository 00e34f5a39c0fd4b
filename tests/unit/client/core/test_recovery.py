"""The sans-IO core: publishes and their confirms, and coming back after a loss."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.client.core.channel import REFUSALS_MAX
from embermq.client.core.engine import CLOSED, IDLE, OPEN, RESTORING
from embermq.client.core.publication import Outgoing, Receipt
from embermq.client.core.request import Request
from embermq.client.core.requests import consume_request, request_for
from embermq.client.errors import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
    PublishFailed,
)
from embermq.wire.frame import content_frames, content_header, method_frame
from embermq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.scripted_broker import FRAME_MAX, Future, QuietInbox, Script, delivery, inbox

ROUTE = BasicPublish("", "key").encode()
NONE = b"\0\0"


def connected() -> Script:
    script = Script()
    script.connect()
    script.heard()
    return script


# -- publishing


@settings(max_examples=60)
@given(count=st.integers(1, 40), data=st.data())
def test_confirms_in_any_order(count: int, data: st.DataObject) -> None:
    script = connected()
    channel = script.channel(confirming=True)
    receipts = [Receipt(1) for _ in range(count)]
    for receipt in receipts:
        channel.publish(ROUTE, NONE, b"x", False, receipt)
    expected = [None] * count
    open_tags = set(range(1, count + 1))
    while open_tags:
        tag = data.draw(st.sampled_from(sorted(open_tags)))
        multiple, acked = data.draw(st.booleans()), data.draw(st.booleans())
        script.answer(1, BasicAck(tag, multiple) if acked else BasicNack(tag, multiple))
        for settled in [other for other in open_tags if other == tag or (multiple and other < tag)]:
            open_tags.discard(settled)
            expected[settled - 1] = acked  # type: ignore[call-overload]
    assert [receipt.nacked == 0 for receipt in receipts] == expected
    assert all(receipt.done for receipt in receipts)
    assert not channel.unconfirmed.count


def test_a_batch_has_one_receipt() -> None:
    script = connected()
    channel = script.channel(confirming=True)
    receipt = Receipt(1)
    items = iter([b"1", "2", Outgoing(b"3", "other", "exchange", mandatory=True)])
    assert channel.publish_some(items, "", "key", NONE, False, receipt, 1_000_000) is False
    receipt.settle(True, None)
    receipt.waiter = future = Future()
    published = script.heard_methods(1)
    assert published == [
        BasicPublish("", "key"),
        BasicPublish("", "key"),
        BasicPublish("exchange", "other", True),
    ]
    header = content_header(1, NONE)
    script.answer(1, BasicAck(1))
    script.say(
        method_frame(1, BasicReturn(312, "NO_ROUTE", "exchange", "other"))
        + content_frames(1, header, b"3", FRAME_MAX)
    )
    assert not future.over
    script.answer(1, BasicNack(3, True))
    assert isinstance(future.error, PublishFailed)
    assert (future.error.nacked, len(future.error.returned)) == (2, 0)  # a refused one is not also returned
    assert script.events[-1][0] == "returned"


def test_a_large_batch_is_sent_in_steps() -> None:
    script = connected()
    channel = script.channel()
    items = iter([b"x" * 1000] * 10)
    assert channel.publish_some(items, "", "key", NONE, False, None, 4000) is True
    assert len(script.heard_methods(1)) == 4
    while channel.publish_some(items, "", "key", NONE, False, None, 4000):
        script.heard()


def test_unconfirmed_publishes_go_out_again_with_new_tags() -> None:
    script = connected()
    channel = script.channel(confirming=True)
    receipts = [Receipt(1) for _ in range(3)]
    for number, receipt in enumerate(receipts):
        channel.publish(ROUTE, NONE, b"%d" % number, False, receipt)
    script.answer(1, BasicAck(1))
    script.engine.lost(ConnectionLost("gone"), final=False)
    late = Receipt(1)
    channel.publish(ROUTE, NONE, b"late", False, late)
    script.connect()
    heard = [payload for number, payload in script.heard() if number == 1]
    bodies = [p for p in heard if isinstance(p, bytes) and not p.startswith(b"\x00\x3c")]
    assert bodies == [b"1", b"2", b"late"]
    assert [type(p) for p in heard[:2]] == [ChannelOpen, ConfirmSelect]
    script.answer(1, ChannelOpenOk(), BasicAck(0, True))
    # The answer to confirm.select is missing, yet confirms are no answers to requests.
    assert all(receipt.done and not receipt.nacked for receipt in [*receipts, late])


def test_a_final_loss_fails_everything() -> None:
    script = connected()
    channel = script.channel(confirming=True)
    receipt, future = Receipt(1), Future()
    channel.publish(ROUTE, NONE, b"x", False, receipt)
    channel.request(Request(BasicQos(0, 1), future))
    box = inbox(channel)
    script.engine.lost(ConnectionClosed("over"), final=True)
    assert isinstance(receipt.failure(), ConnectionClosed)
    assert isinstance(future.error, ConnectionClosed)
    assert isinstance(box.error, ConnectionClosed)
    assert script.engine.state == CLOSED
    with pytest.raises(ConnectionClosed, match="over"):
        script.engine.open_channel(Request(ChannelOpen()), confirming=False)


# -- coming back


def test_what_was_not_looked_at_before_the_loss_is_stale_at_once() -> None:
    """It will come again: whoever has it in hand while the client reconnects need not begin with it."""
    script = connected()
    channel = script.channel()
    consumer = inbox(channel)
    script.say(delivery(channel.number, "tag", 1, b"one") + delivery(channel.number, "tag", 2, b"two"))
    taken = script.engine.taken(consumer)
    assert [message.stale for message in taken] == [False, False]
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert [message.stale for message in taken] == [True, True]
    taken[0].ack()
    assert script.heard() == []


def test_everything_is_said_again() -> None:
    script = connected()
    channel = script.channel(confirming=True)
    for method, answer in (
        (ExchangeDeclare("e", "topic"), ExchangeDeclareOk()),
        (QueueDeclare("", exclusive=True), QueueDeclareOk("amq.gen-1", 0, 0)),
        (QueueBind("amq.gen-1", "e", "#"), QueueBindOk()),
        (BasicQos(0, 9), BasicQosOk()),
    ):
        channel.request(request_for(channel, method))
        script.answer(1, answer)
    consumer = QuietInbox(BasicConsume("amq.gen-1", "c"))
    channel.request(consume_request(channel, consumer))
    script.answer(1, BasicConsumeOk("c"))
    script.heard()
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert script.engine.state == IDLE
    script.connect()
    assert script.engine.state == RESTORING
    restoring = 2  # the number of the channel that topology comes back on
    assert script.heard_methods(restoring) == [ChannelOpen(), ExchangeDeclare("e", "topic")]
    script.answer(restoring, ChannelOpenOk(), ExchangeDeclareOk())
    assert script.heard_methods(restoring) == [QueueDeclare("", exclusive=True)]
    script.answer(restoring, QueueDeclareOk("amq.gen-2", 0, 0))
    assert script.heard_methods(restoring) == [QueueBind("amq.gen-2", "e", "#")]
    script.answer(restoring, QueueBindOk())
    assert script.heard_methods(restoring) == [ChannelClose(200, "restored")]
    script.answer(restoring, ChannelCloseOk())
    assert script.engine.state == OPEN
    assert script.heard_methods(1) == [
        ChannelOpen(),
        ConfirmSelect(),
        BasicQos(0, 9),
        BasicConsume("amq.gen-2", "c"),
    ]
    assert script.opened_count == 2


def test_a_channel_that_was_being_closed_does_not_come_back() -> None:
    script = connected()
    channel, other = script.channel(), script.channel()
    closing, asking = Future(), Future()
    channel.request(Request(BasicQos(0, 1), asking))
    channel.request(Request(ChannelClose(200, "bye"), closing))
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert closing.result == ChannelCloseOk()
    assert isinstance(asking.error, ChannelClosed)
    script.connect()
    assert script.heard_methods(channel.number) == []
    assert other.ready and not channel.ready


def test_what_cannot_be_restored_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    script = connected()
    channel = script.channel()
    for name in ("a", "b", "c"):
        channel.request(request_for(channel, ExchangeDeclare(name)))
        script.answer(1, ExchangeDeclareOk())
    script.engine.lost(ConnectionLost("gone"), final=False)
    script.connect()
    script.heard()
    script.answer(2, ChannelOpenOk(), ExchangeDeclareOk(), ChannelClose(406, "inequivalent", 40, 10))
    # The rest of the group one by one, on new channels.
    assert script.heard_methods(2) == [ChannelCloseOk(), ChannelOpen(), ExchangeDeclare("b")]
    script.answer(2, ChannelOpenOk(), ChannelClose(406, "inequivalent", 40, 10))
    assert script.heard_methods(2) == [ChannelCloseOk(), ChannelOpen(), ExchangeDeclare("c")]
    script.answer(2, ChannelOpenOk(), ExchangeDeclareOk(), ChannelCloseOk())
    assert script.engine.state == OPEN
    assert "not restored" in caplog.text and "'b'" in caplog.text


def test_a_queue_that_is_still_locked_makes_the_attempt_fail() -> None:
    script = connected()
    channel = script.channel()
    channel.request(request_for(channel, QueueDeclare("q", exclusive=True)))
    script.answer(1, QueueDeclareOk("q", 0, 0))
    script.engine.lost(ConnectionLost("gone"), final=False)
    script.connect()
    script.answer(2, ChannelOpenOk(), ChannelClose(405, "RESOURCE_LOCKED", 50, 10))
    assert isinstance(script.end, ConnectionFailed)
    script.engine.lost(script.end, final=False)
    script.connect()
    assert QueueDeclare("q", exclusive=True) in script.heard_methods(2)


def test_a_publish_that_the_broker_answers_by_closing_is_not_sent_for_ever() -> None:
    """541 is worth coming back after; but when the same messages are there each time, they may be why."""
    script = connected()
    channel = script.channel(confirming=True)
    receipt = Receipt(1)
    channel.publish(ROUTE, NONE, b"poison", False, receipt)
    asked = Future()
    channel.request(Request(QueueDeclare("poison"), asked))
    sent = 0
    while not receipt.done:
        sent += len([one for one in script.heard_methods(1) if isinstance(one, BasicPublish)])
        script.answer(0, ConnectionClose(541, "INTERNAL_ERROR"))
        assert script.end is not None
        script.engine.lost(script.end, final=False)
        script.heard()
        script.connect()
        if not receipt.done:
            script.answer(1, ChannelOpenOk(), ConfirmSelectOk())
    assert sent == REFUSALS_MAX
    failure = receipt.failure()
    assert isinstance(failure, ConnectionClosed)
    assert failure.reply_code == 541
    assert isinstance(asked.error, ConnectionClosed)
    assert not channel.unconfirmed.count


def test_a_lost_connection_is_no_refusal() -> None:
    script = connected()
    channel = script.channel(confirming=True)
    receipt = Receipt(1)
    channel.publish(ROUTE, NONE, b"x", False, receipt)
    for _ in range(3 * REFUSALS_MAX):
        script.engine.lost(ConnectionLost("cut"), final=False)
        script.connect()
    assert not receipt.done
