"""Messages for a stream that come many in one read: taken together, they are what each would be by itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from embermq.broker.stream.stream import Stream
from embermq.wire import methods
from embermq.wire.properties import Properties
from tests.support.amqp_conversation import Wire, publish
from tests.support.stored_domain import StoredBroker

PLAIN = Properties(delivery_mode=2)
KINDS = [PLAIN, Properties(), Properties(delivery_mode=2, content_type="text/plain", priority=7)]
DECLARE = methods.QueueDeclare(
    queue="s",
    durable=True,
    arguments={"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000},
)


def conversation(stored: StoredBroker) -> Wire:
    wire = Wire(stored=stored).open()
    wire.say(DECLARE, methods.QueueDeclare(queue="q"), methods.ConfirmSelect(), channel=1)
    stored.wait_until_safe()
    wire.take()
    return wire


def confirmed(wire: Wire) -> int:
    """The last tag that was confirmed."""
    wire.loop.run()
    acks = [method for method in wire.take_methods() if isinstance(method, methods.BasicAck)]
    return max((ack.delivery_tag for ack in acks), default=0)


def stream_of(stored: StoredBroker) -> Stream:
    stream = stored.vhost.queues["s"]
    assert isinstance(stream, Stream)
    return stream


def kept(stored: StoredBroker) -> list[tuple[bytes, bytes, int, bool]]:
    return [(m.names, m.content, m.priority, m.persistent) for m in stream_of(stored).messages()]


def floods(chance: random.Random) -> list[bytes]:
    """Runs of messages that are alike, with others in between."""
    messages: list[bytes] = []
    for _ in range(30):
        properties = chance.choice([*KINDS, Properties(headers={"a": 1}), Properties(reply_to="x")])
        key = chance.choice(["s", "s", "s", "q", "nowhere"])
        for _ in range(chance.choice([1, 2, 40])):
            body = chance.randbytes(chance.choice([0, 1, 10, 10, 10, 700, 5000]))
            messages.append(publish(key, body, properties=properties))
    return messages


@pytest.mark.parametrize("seed", range(4))
def test_together_or_one_by_one(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    messages = floods(chance)
    with StoredBroker(tmp_path / "one") as stored:
        wire = conversation(stored)
        for message in messages:
            wire.feed(message, run=False)  # nothing follows it in the buffer
        stored.wait_until_safe()
        expected = kept(stored)
        assert confirmed(wire) == len(messages)
    assert len(expected) > 100
    with StoredBroker(tmp_path / "many") as stored:
        wire = conversation(stored)
        flood = b"".join(messages)
        last = 0
        while flood:
            size = chance.choice([1, 100, 3000, 30_000, 100_000])
            wire.feed(flood[:size], run=False)
            flood = flood[size:]
            if chance.random() < 0.3:
                stored.wait_until_safe()
                last = max(last, confirmed(wire))
        stored.wait_until_safe()
        assert kept(stored) == expected
        assert max(last, confirmed(wire)) == len(messages)
        channel = wire.connection.channels[1]
        assert channel.received_count == channel.published == len(messages)
        stream = stream_of(stored)
        assert stream.ready_count == stream.published_count == stream.log.count == len(expected)
        received, routed, unroutable = stored.vhost.exchanges[""].counts()
        assert (received, routed + unroutable) == (len(messages), len(messages))
    with StoredBroker(tmp_path / "many") as stored:
        assert kept(stored) == expected


def test_nothing_is_confirmed_before_it_is_safe(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        wire = conversation(stored)
        wire.feed(publish("s", b"x" * 100, properties=PLAIN) * 50)
        assert stored.calls.qsize()  # the store has something to tell
        assert confirmed(wire) == 0
        stored.wait_until_safe()
        assert confirmed(wire) == 50


def test_a_message_that_is_not_like_the_others_is_looked_at(tmp_path: Path) -> None:
    """What a run of good ones is followed by is refused as ever, and they are kept."""
    with StoredBroker(tmp_path) as stored:
        wire = conversation(stored)
        good = publish("s", b"x" * 100, properties=PLAIN)
        wire.feed(good * 10 + publish("s", b"y", properties=Properties(delivery_mode=3)) + good)
        (closed,) = [one for one in wire.take_methods() if isinstance(one, methods.ChannelClose)]
        assert closed.reply_code == 406
        stored.wait_until_safe()
        assert len(kept(stored)) == 10
        wire.say(methods.ChannelCloseOk(), methods.ChannelOpen(), channel=1)
        broken = bytearray(good)
        broken[-1] = 0
        wire.feed(good * 10 + broken + good)
        (ended,) = [one for one in wire.take_methods() if isinstance(one, methods.ConnectionClose)]
        assert ended.reply_code == 501
        stored.wait_until_safe()
        assert len(kept(stored)) == 20


def test_what_a_transaction_holds_waits_for_its_commit(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        wire = Wire(stored=stored).open()
        wire.say(DECLARE, methods.TxSelect(), channel=1)
        stored.wait_until_safe()
        wire.feed(publish("s", b"x" * 100) * 10)
        stored.wait_until_safe()
        assert kept(stored) == []
        wire.say(methods.TxCommit(), channel=1)
        stored.wait_until_safe()
        assert len(kept(stored)) == 10


def test_a_stream_that_is_gone_takes_nothing_more(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        wire = conversation(stored)
        some = publish("s", b"x" * 100, mandatory=True) * 10
        wire.feed(some, run=False)
        stored.vhost.delete_queue(stream_of(stored))
        wire.feed(some)
        assert sum(isinstance(one, methods.BasicReturn) for one in wire.take_methods()) == 10
