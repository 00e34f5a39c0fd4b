"""Who may use a queue and how long it lives: exclusive and auto-delete queues."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import LOCKED, drain, eventually, fill, leave, queue_exists
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

types = rule("001", "1.7.2.1.5", "queue.declare.exclusive/types", "Exclusive and shared queues are supported")
exclusive = rule(
    "001",
    "1.7.2.1.5",
    "queue.declare.exclusive/locked",
    "An exclusive queue is accessible to its connection only; others are answered with 405",
)
ending = rule(
    "001",
    "1.7.2.1.5",
    "queue.declare.exclusive/deleted",
    "An exclusive queue is deleted when its connection closes",
)
auto_delete = rule(
    "001",
    "1.7.2.1.6",
    "queue.declare.auto-delete",
    "An auto-delete queue goes with its last consumer, cancelled or closed; never consumed, it stays",
)


@types
def test_shared_queue_is_open_to_other_connections(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False)
    other = connect().channel()
    fill(other, queue, [b"from outside"])
    assert drain(other, queue) == [b"from outside"]
    other.call(spec.Queue.Delete(queue=queue))


@types
def test_exclusive_queue_is_open_to_the_whole_connection(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"))
    second = client.channel(2)
    second.call(spec.Queue.Declare(queue=queue, exclusive=True))
    fill(second, queue, [b"x"])
    second.consume(queue)
    second.delivery()


@exclusive
@pytest.mark.parametrize(
    "make",
    [
        lambda queue: spec.Queue.Declare(queue=queue, exclusive=True),
        lambda queue: spec.Queue.Declare(queue=queue),
        lambda queue: spec.Queue.Declare(queue=queue, passive=True),
        lambda queue: spec.Queue.Bind(queue=queue, exchange="amq.fanout"),
        lambda queue: spec.Queue.Purge(queue=queue),
        lambda queue: spec.Queue.Delete(queue=queue),
        lambda queue: spec.Basic.Consume(queue=queue),
        lambda queue: spec.Basic.Get(queue=queue),
    ],
    ids=["declare", "declare-shared", "passive", "bind", "purge", "delete", "consume", "get"],
)
def test_exclusive_queue_is_locked_for_other_connections(
    connect: Callable[..., RawClient], channel: RawChannel, make: Callable[[str], Any]
) -> None:
    queue = connect().channel().declare(unique("queue"))
    channel.call_fails(make(queue), 405, LOCKED.format(queue))


@exclusive
def test_anybody_may_publish_to_an_exclusive_queue(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    queue = channel.declare()
    publisher = connect().channel()
    publisher.publish(b"reply", routing_key=queue, mandatory=True)
    publisher.sync()
    assert drain(channel, queue) == [b"reply"]


@ending
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("how", [leave, RawClient.drop, RawClient.drop_hard], ids=["close", "drop", "reset"])
def test_exclusive_queue_ends_with_its_connection(
    connect: Callable[..., RawClient], channel: RawChannel, durable: bool, how: Callable[[RawClient], None]
) -> None:
    owner = connect()
    queue = owner.channel().declare(unique("queue"), durable=durable)

    def name_is_free() -> bool:
        asking = channel.client.channel(9)
        asking.send(spec.Queue.Declare(queue=queue, passive=True))
        close = asking.expect(spec.Channel.Close)
        asking.send(spec.Channel.CloseOk())
        return bool(close.reply_code == 404)

    assert not name_is_free()
    how(owner)
    assert eventually(name_is_free)


@ending
def test_exclusive_queue_outlives_its_channel(client: RawClient) -> None:
    first, second = client.channel(1), client.channel(2)
    queue = first.declare()
    first.close()
    assert queue_exists(second, queue)


@ending
@auto_delete
def test_exclusive_auto_delete_queue_goes_with_its_consumer(channel: RawChannel) -> None:
    queue = channel.declare(auto_delete=True)
    channel.cancel(channel.consume(queue))
    assert not queue_exists(channel, queue)


@auto_delete
def test_auto_delete_queue_goes_with_the_last_of_its_consumers(
    client: RawClient, channel: RawChannel
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    tags = [channel.consume(queue) for _ in range(3)]
    for tag in tags[:-1]:
        channel.cancel(tag)
    asking = client.channel(2)
    assert queue_exists(asking, queue)
    channel.cancel(tags[-1])
    assert not queue_exists(asking, queue)


@auto_delete
def test_auto_delete_queue_goes_with_the_channel_of_its_consumer(
    client: RawClient, channel: RawChannel
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    second = client.channel(2)
    second.consume(queue)
    second.close()
    assert not queue_exists(channel, queue)


@auto_delete
def test_auto_delete_queue_goes_with_the_connection_of_its_consumer(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    other = connect()
    other.channel().consume(queue)
    other.drop()
    assert eventually(lambda: not queue_exists(channel, queue))


@auto_delete
def test_auto_delete_queue_without_consumers_stays(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    owner = connect()
    maker = owner.channel()
    queue = maker.declare(unique("queue"), exclusive=False, auto_delete=True)
    fill(maker, queue, [b"x"])
    assert drain(maker, queue) == [b"x"], "basic.get makes no consumer"
    leave(owner)
    assert queue_exists(channel, queue)
    channel.call(spec.Queue.Delete(queue=queue))


@auto_delete
def test_auto_delete_queue_can_be_deleted_explicitly(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    channel.call(spec.Queue.Delete(queue=queue))
    assert not queue_exists(channel, queue)


@auto_delete
def test_exclusive_queue_on_a_closing_channel_requeues_before_it_ends(
    client: RawClient, channel: RawChannel
) -> None:
    """A channel exception on the consumer's channel ends the consumer, and with it the queue."""
    queue = channel.declare(auto_delete=True)
    fill(channel, queue, [b"x"])
    second = client.channel(2)
    second.consume(queue)
    second.delivery()
    second.ack(99)
    second.expect_close(406)
    assert eventually(lambda: not queue_exists(channel, queue))
