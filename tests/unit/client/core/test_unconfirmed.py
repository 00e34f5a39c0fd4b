"""Columns as published messages: the same as one by one, in confirms, returns, refusals and reconnections."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate

import pytest

from embermq.client import Channel, ChannelClosed, Properties, PublishFailed, Values, connect
from embermq.client.core.columns import rows_of
from embermq.client.core.publication import Receipt
from embermq.client.errors import ClientError, ConnectionLost
from embermq.testing import EmbeddedBroker
from embermq.wire.columns.publish_rows import Rows
from embermq.wire.frame import content_frames, content_header, method_frame
from embermq.wire.methods import BasicAck, BasicNack, BasicPublish, BasicReturn
from tests.support.scripted_broker import FRAME_MAX, Script

NONE = b"\0\0"
ROUTE = BasicPublish("", "key", True).encode()


def column(values: list[bytes]) -> Values:
    return Values(array("i", [0, *accumulate(map(len, values))]).tobytes(), b"".join(values))


def rows(*bodies: bytes, mandatory: bool = True) -> Rows:
    return rows_of(column(list(bodies)), "key", "", None, mandatory)


def scripted() -> Script:
    script = Script()
    script.connect()
    return script


def sent_bodies(script: Script) -> list[bytes]:
    return [
        payload for _, payload in script.heard() if isinstance(payload, bytes) and payload[:2] != b"\0\x3c"
    ]


def returned(script: Script, body: bytes, properties: bytes = NONE) -> None:
    frames = content_frames(1, content_header(len(body), properties), body, FRAME_MAX)
    script.say(method_frame(1, BasicReturn(312, "NO_ROUTE", "", "key")) + frames)


def test_confirms_of_many_one_and_none() -> None:
    script = scripted()
    channel = script.channel(confirming=True)
    first, single, second = Receipt(0), Receipt(1), Receipt(0)
    assert channel.publish_rows(rows(b"1", b"2", b"3", b"4"), 0, True, first, 10**6) == 4
    channel.publish(ROUTE, NONE, b"5", True, single)
    assert channel.publish_rows(rows(b"6", b"7"), 0, True, second, 10**6) == 2
    assert sent_bodies(script) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert channel.unconfirmed.count == 7
    script.answer(1, BasicAck(3), BasicAck(3), BasicAck(1))
    assert (first.outstanding, channel.unconfirmed.count) == (2, 5)
    script.answer(1, BasicNack(2))
    script.answer(1, BasicAck(6, True))
    assert (first.outstanding, first.nacked, single.done, second.outstanding) == (0, 1, True, 1)
    script.answer(1, BasicNack(0, True))
    assert (second.outstanding, second.nacked, channel.unconfirmed.count) == (0, 1, 0)
    last = Receipt(1)
    channel.publish(ROUTE, NONE, b"8", True, last)
    script.answer(1, BasicAck(8, True))
    assert last.done and channel.unconfirmed.count == 0


def test_steps_are_one_run() -> None:
    script = scripted()
    channel = script.channel(confirming=True)
    receipt, many = Receipt(0), rows(*[b"x" * 100] * 50)
    row = 0
    while row < many.count:
        row = channel.publish_rows(many, row, True, receipt, 1000)
        assert 0 < len(sent_bodies(script)) < 10
    assert receipt.outstanding == 50
    script.answer(1, BasicAck(20, True), BasicAck(50, True))
    assert receipt.done and receipt.failure() is None


def test_returns_are_found_in_their_order() -> None:
    script = scripted()
    channel = script.channel(confirming=True)
    receipt, other = Receipt(0), Receipt(0)
    channel.publish_rows(rows(b"same", b"two", b"same", b"four"), 0, True, receipt, 10**6)
    channel.publish_rows(rows(b"two", mandatory=False), 0, False, other, 10**6)
    returned(script, b"two")
    returned(script, b"same")
    returned(script, b"same", properties=Properties(delivery_mode=2).encode())  # the broker may change them
    returned(script, b"nobody's")
    script.answer(1, BasicAck(2), BasicAck(0, True))
    failure = receipt.failure()
    assert isinstance(failure, PublishFailed) and failure.nacked == 0
    assert [message.body for message in failure.returned] == [b"two", b"same", b"same"]
    assert other.done and other.failure() is None


def test_what_was_not_confirmed_goes_out_again() -> None:
    script = scripted()
    channel = script.channel(confirming=True)
    receipt, single, late = Receipt(0), Receipt(1), Receipt(0)
    channel.publish_rows(rows(b"1", b"2", b"3", b"4"), 0, True, receipt, 10**6)
    channel.publish(ROUTE, NONE, b"5", True, single)
    script.answer(1, BasicAck(1), BasicAck(3))
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert channel.publish_rows(rows(b"6", b"7"), 0, True, late, 1) == 2  # kept, whatever their size
    script.heard()
    script.connect()
    assert sent_bodies(script) == [b"2", b"4", b"5", b"6", b"7"]
    assert channel.unconfirmed.count == 5
    script.answer(1, BasicAck(0, True))
    assert receipt.done and single.done and late.done


def test_a_channel_that_ends_tells_everybody() -> None:
    script = scripted()
    channel = script.channel(confirming=True)
    receipt, confirmed = Receipt(0), Receipt(0)
    channel.publish_rows(rows(b"1", b"2"), 0, True, receipt, 10**6)
    channel.publish_rows(rows(b"3"), 0, True, confirmed, 10**6)
    script.answer(1, BasicAck(3))
    channel.end(ChannelClosed("over"))
    assert receipt.done and str(receipt.failure()) == "over"
    assert confirmed.done and confirmed.failure() is None
    assert channel.unconfirmed.count == 0


def test_without_confirms_and_in_transactions() -> None:
    script = scripted()
    channel = script.channel()
    receipt = Receipt(0)
    channel.publish_rows(rows(b"1"), 0, True, receipt, 10**6)
    assert sent_bodies(script) == [b"1"] and receipt.done and channel.unconfirmed.count == 0
    channel.transactional = True
    channel.publish_rows(rows(b"2"), 0, True, receipt, 10**6)
    assert channel.transaction_open
    script.engine.lost(ConnectionLost("gone"), final=False)
    assert channel.transaction_lost


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def channel(broker: EmbeddedBroker) -> Iterator[Channel]:
    with broker.vhost() as vhost, connect(broker.url_of(vhost)) as connection:
        with connection.channel(prefetch=None) as made:
            yield made


def test_from_columns_to_columns(channel: Channel) -> None:
    """What was consumed can be published as it is; large bodies and many rows included."""
    for name in ("a", "b", "copy"):
        channel.queue_declare(name)
    bodies = [b"%d" % number for number in range(4000)] + [b"y" * 300_000, b""]
    keys = [b"a" if number % 2 else b"b" for number in range(len(bodies))]
    ids = [Properties(message_id=f"m{number}").encode() for number in range(len(bodies))]
    channel.publish_columns(column(bodies), column(keys), properties=column(ids), mandatory=True)
    assert channel.unconfirmed_count == 0
    got = channel.consume("a").fetch_all(len(bodies) // 2, 30)
    assert [message.body for message in got] == bodies[1::2]
    assert got[1].properties.message_id == "m3"
    with channel.consume_columns("b", ("body", "properties"), no_ack=True) as consumer:
        left = len(bodies) // 2
        while left:
            batch = consumer.fetch(left, 30)
            assert batch is not None and batch.body is not None
            left -= batch.count
            channel.publish_columns(batch.body, "copy", properties=batch.properties)
    copies = channel.consume("copy").fetch_all(len(bodies) // 2, 30)
    assert [message.body for message in copies] == bodies[::2]
    assert copies[1].properties.message_id == "m2"


def test_returned_and_refused_ones_are_told(channel: Channel) -> None:
    channel.queue_declare("small", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    keys = [b"small", b"nobody", b"small", b"nobody", b"small", b"small", b"small"]
    with pytest.raises(PublishFailed) as failed:
        channel.publish_columns(column([b"x"] * len(keys)), column(keys), mandatory=True)
    assert failed.value.nacked == 2 and len(failed.value.returned) == 2


def test_mistakes_send_nothing_and_a_closed_channel_says_why(channel: Channel) -> None:
    channel.queue_declare("q")
    with pytest.raises(ValueError, match="short string of 300 bytes"):
        channel.publish_columns(column([b"x"]), column([b"k" * 300]))
    channel.publish_columns(column([]), "q")
    assert channel.queue_declare("q", passive=True).message_count == 0
    with pytest.raises(ClientError, match="no exchange 'nowhere'"):
        channel.publish_columns(column([b"x"] * 1000), "q", "nowhere")
    with pytest.raises(ClientError, match="no exchange 'nowhere'"):
        channel.publish_columns(column([b"x"]), "q")
