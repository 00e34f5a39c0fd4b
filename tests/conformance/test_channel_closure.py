"""What becomes of messages and queues when a channel ends, however it ends (002, 4.5)."""

import time
from collections.abc import Callable

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, unique

Connect = Callable[..., RawClient]

REQUEUED = rule(
    "002",
    "4.5",
    "channel-closure/redelivery",
    "When a channel ends, however it ends, its unacknowledged messages are marked for redelivery",
)


@pytest.fixture
def pair(connect: Connect) -> tuple[RawChannel, RawChannel]:
    """Channels on two connections."""
    return connect().channel(1), connect().channel(1)


def close_channel(channel: RawChannel) -> None:
    channel.close()


def channel_exception(channel: RawChannel) -> None:
    channel.call_fails(spec.Queue.Declare(queue=unique(), passive=True), 404)


def close_connection(channel: RawChannel) -> None:
    channel.client.close()


def connection_exception(channel: RawChannel) -> None:
    channel.send(spec.Channel.Open())
    channel.client.expect_close(504)


def drop_socket(channel: RawChannel) -> None:
    channel.client.drop()


def reset_socket(channel: RawChannel) -> None:
    channel.client.drop_hard()


ENDINGS = [
    close_channel,
    channel_exception,
    close_connection,
    connection_exception,
    drop_socket,
    reset_socket,
]


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("how", ["get", "consume"])
@REQUEUED
def test_unacknowledged_messages_come_back(
    pair: tuple[RawChannel, RawChannel], end: Callable[[RawChannel], None], how: str
) -> None:
    holder, heir = pair
    queue = heir.declare(unique(), exclusive=False, auto_delete=True)
    for number in range(4):
        heir.publish(b"%d" % number, routing_key=queue)
    heir.sync()
    if how == "get":
        held = [holder.get(queue, no_ack=False) for _ in range(4)]
        assert None not in held
    else:
        holder.qos(4)
        holder.consume(queue)
        holder.deliveries(4)
    holder.ack(2)  # the second one only
    holder.sync()
    if how == "consume":
        # Keeps the auto-delete queue alive; it gets nothing before the holder is gone.
        heir.consume(queue)
        end(holder)
    else:
        end(holder)
        heir.consume(queue)
    messages = heir.deliveries(3)
    assert [message.body for message in messages] == [b"0", b"2", b"3"]
    assert all(message.redelivered for message in messages)


@pytest.mark.parametrize("end", ENDINGS[2:])
@rule("002", "4.5", "channel-closure/exclusive", "When a connection ends, its exclusive queues are deleted")
def test_exclusive_queues_end_with_their_connection(
    pair: tuple[RawChannel, RawChannel], end: Callable[[RawChannel], None]
) -> None:
    owner, other = pair
    queue = owner.declare(unique(), exclusive=True)
    end(owner)
    # The name becomes free: as soon as the owner's end is noticed a declare succeeds instead of 405.
    for _ in range(500):
        other.send(spec.Queue.Declare(queue=queue, exclusive=True))
        frame = other.client.next_frame()
        if isinstance(frame.value, spec.Queue.DeclareOk):
            return
        assert frame.value.reply_code == 405
        other.send(spec.Channel.CloseOk())
        other.open()
        time.sleep(0.01)
    raise AssertionError("the queue outlived its connection")


@pytest.mark.parametrize("end", ENDINGS)
@rule(
    "002",
    "4.5",
    "channel-closure/auto-delete",
    "When a channel ends, auto-delete queues without other consumers go",
)
def test_auto_delete_queues_end_with_their_last_consumer(
    pair: tuple[RawChannel, RawChannel], end: Callable[[RawChannel], None]
) -> None:
    consumer, other = pair
    queue = consumer.declare(unique(), exclusive=False, auto_delete=True)
    consumer.consume(queue)
    end(consumer)
    for _ in range(500):
        other.send(spec.Queue.Declare(queue=queue, passive=True))
        frame = other.client.next_frame()
        if isinstance(frame.value, spec.Channel.Close):
            assert frame.value.reply_code == 404
            return
        time.sleep(0.01)
    raise AssertionError("the queue outlived its last consumer")
