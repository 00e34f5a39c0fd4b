"""A broker that dies and comes back: everything the client had is there again, nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from embermq.client import (
    ClientError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    Message,
    Properties,
    TransactionLost,
    connect,
    connect_async,
)
from tools.brokers import Broker, BrokerError, EmberBroker

PERSISTENT = Properties(delivery_mode=2)
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def mortal() -> Iterator[Broker]:
    with EmberBroker() as running:
        yield running


@pytest.fixture
def broker(mortal: Broker) -> Broker:
    """Running, whatever the test before did to it."""
    try:
        mortal.start()
    except BrokerError:
        assert mortal.pid
    return mortal


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with connect(broker.url, reconnect_delay_s=0.05, call_timeout_s=PATIENCE_S) as opened:
        yield opened


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_topology_and_consumers_come_back(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    channel.exchange_declare("back.topic", "topic")  # not durable: the broker forgets it
    channel.exchange_declare("back.in", "fanout")
    channel.exchange_bind("back.topic", "back.in", "")
    named = channel.queue_declare("back.named", exclusive=True)
    unnamed = channel.queue_declare(exclusive=True)
    first_name = unnamed.name
    channel.queue_bind(named.name, "back.topic", "#")
    channel.queue_bind(unnamed.name, "back.topic", "key")
    consumers = [channel.consume(info.name, prefetch=7) for info in (named, unnamed)]
    told = threading.Event()
    connection.on_reconnected = told.set
    broker.kill()
    eventually(lambda: not connection.is_open)
    broker.start()
    assert told.wait(PATIENCE_S)
    assert unnamed.name != first_name
    channel.publish(b"after", "key", "back.in")
    for consumer in consumers:
        (message,) = consumer.fetch_all(1, PATIENCE_S)
        assert message.body == b"after"
        message.ack()
    # The old name of the queue still works in requests.
    assert channel.queue_purge(first_name) == 0


def test_what_was_deleted_stays_deleted(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    channel.exchange_declare("gone.exchange")
    channel.queue_declare("gone.queue", exclusive=True)
    channel.queue_bind("gone.queue", "amq.direct", "gone")
    channel.queue_unbind("gone.queue", "amq.direct", "gone")
    channel.queue_declare("gone.deleted", exclusive=True)
    channel.queue_bind("gone.deleted", "gone.exchange", "x")
    channel.queue_delete("gone.deleted")
    channel.exchange_delete("gone.exchange")
    broker.kill()
    broker.start()
    assert channel.queue_declare("gone.queue", passive=True).message_count == 0
    channel.publish(b"x", "gone", "amq.direct")
    assert channel.get("gone.queue") is None
    for look in (
        lambda other: other.queue_declare("gone.deleted", passive=True),
        lambda other: other.exchange_declare("gone.exchange", passive=True),
    ):
        with pytest.raises(ClientError, match="404"):
            look(connection.channel())


def test_unconfirmed_publishes_are_sent_again(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    channel.queue_declare("again", durable=True)
    channel.publish(b"before", "again", properties=PERSISTENT)
    broker.kill()
    confirmations = [
        channel.publish_soon(b"%d" % number, "again", properties=PERSISTENT) for number in range(500)
    ]
    batch = channel.publish_batch_soon([b"b%d" % number for number in range(500)], "again")
    broker.start()
    for confirmation in confirmations:
        confirmation.wait()
    batch.wait()
    got = channel.consume("again", prefetch=2000).fetch_all(1001, PATIENCE_S)
    bodies = [message.body for message in got]
    assert bodies == [b"before", *(b"%d" % n for n in range(500)), *(b"b%d" % n for n in range(500))]
    channel.queue_delete("again")


def test_a_broker_killed_again_and_again_loses_nothing_confirmed(
    broker: Broker, connection: Connection
) -> None:
    channel = connection.channel()
    channel.queue_declare("kill", durable=True)
    confirmed: list[int] = []
    enough = threading.Event()

    def publish() -> None:
        number = 0
        while not enough.is_set():
            numbers = range(number, number + 50)
            channel.publish_batch([b"%d" % n for n in numbers], "kill", properties=PERSISTENT)
            confirmed.extend(numbers)
            number += 50

    publisher = threading.Thread(target=publish)
    publisher.start()
    for _ in range(3):
        goal = len(confirmed) + 500
        eventually(lambda goal=goal: len(confirmed) >= goal)
        broker.kill()
        broker.start()
    enough.set()
    publisher.join(PATIENCE_S)
    missing = set(confirmed)
    for message in channel.consume("kill", timeout_s=PATIENCE_S):
        missing.discard(int(message.body))
        message.ack()
        if not missing:
            break
    assert not missing
    channel.queue_delete("kill")


def test_unsettled_messages_come_again_and_old_ones_cannot_be_settled(
    broker: Broker, connection: Connection
) -> None:
    channel = connection.channel()
    channel.queue_declare("unsettled", durable=True)
    channel.publish_batch([b"1", b"2", b"3"], "unsettled", properties=PERSISTENT)
    consumer = channel.consume("unsettled", prefetch=10)
    first = next(consumer)
    broker.kill()
    eventually(lambda: not connection.is_open)
    eventually(lambda: first.stale)  # from now on: it will come again
    first.ack()
    broker.start()
    again = consumer.fetch_all(3, PATIENCE_S)
    assert sorted(message.body for message in again) == [b"1", b"2", b"3"]
    assert first.stale
    first.ack()  # does nothing, above all not to the channel
    consumer.ack(again)
    assert channel.queue_declare("unsettled", passive=True).message_count == 0
    channel.queue_delete("unsettled")


def test_a_request_waits_for_the_connection(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    broker.kill()
    eventually(lambda: not connection.is_open)
    threading.Timer(0.2, broker.start).start()
    assert channel.queue_declare("waits", exclusive=True).name == "waits"
    with connection.channel() as another:
        another.publish(b"x", "waits")


def test_a_channel_may_be_closed_while_the_connection_is_away(broker: Broker, connection: Connection) -> None:
    with connection.channel() as channel:
        channel.queue_declare(exclusive=True)
        broker.kill()
        eventually(lambda: not connection.is_open)
    assert channel.is_closed
    broker.start()
    assert connection.channel().number == channel.number  # it is free again


def test_a_get_is_not_repeated(broker: Broker, connection: Connection) -> None:
    channel = connection.channel()
    broker.kill()
    eventually(lambda: not connection.is_open)
    with pytest.raises(ConnectionLost, match=r"basic.get"):
        channel.get("whatever")
    broker.start()


def test_a_transaction_that_was_cut_says_so(broker: Broker, connection: Connection) -> None:
    channel = connection.channel(confirms=False)
    channel.queue_declare("cut", durable=True)
    channel.tx_select()
    channel.publish(b"half", "cut", properties=PERSISTENT)
    channel.flow(True)  # the broker has it now
    broker.kill()
    broker.start()
    with pytest.raises(TransactionLost, match="repeat it"):
        channel.tx_commit()
    with channel.transaction():
        channel.publish(b"whole", "cut", properties=PERSISTENT)
    assert channel.queue_purge("cut") == 1
    channel.queue_delete("cut")


def test_without_reconnection_the_loss_is_final(broker: Broker) -> None:
    connection = connect(broker.url, reconnect=False)
    channel = connection.channel()
    consumer = channel.consume(channel.queue_declare(exclusive=True).name)
    lost = threading.Event()
    connection.on_lost = lambda error: lost.set()
    broker.kill()
    with pytest.raises(ConnectionLost):
        next(consumer)
    assert lost.wait(PATIENCE_S)
    assert connection.is_closed
    with pytest.raises(ConnectionLost):
        channel.publish(b"x", "q")
    broker.start()


def test_it_gives_up_after_the_given_attempts(broker: Broker) -> None:
    connection = connect(broker.url, reconnect_attempts=2, reconnect_delay_s=0.01)
    broker.kill()
    eventually(lambda: connection.is_closed)
    with pytest.raises(ClientError, match="no connection to"):
        connection.channel()
    broker.start()


def test_a_connection_can_be_closed_while_it_is_away(broker: Broker) -> None:
    connection = connect(broker.url, reconnect_delay_s=30)
    channel = connection.channel()
    confirmation = channel.publish_soon(b"x", "q")
    confirmation.wait(PATIENCE_S)
    broker.kill()
    eventually(lambda: not connection.is_open)
    waiting = channel.publish_soon(b"x", "q")
    connection.close()
    with pytest.raises(ConnectionClosed):
        waiting.wait(PATIENCE_S)
    broker.start()


def test_who_closes_it_in_the_moment_it_is_lost_is_told_so(broker: Broker) -> None:
    connection = connect(broker.url, reconnect_delay_s=30)
    channel = connection.channel()
    thread = connection._io_thread
    waiting = []

    def on_event(event: str, subject: object, detail: object) -> None:
        if event == "lost":
            waiting.append(channel.publish_soon(b"x", "q"))
            connection.close()

    thread.on_event = on_event
    broker.kill()
    thread.thread.join(PATIENCE_S)
    with pytest.raises(ConnectionClosed, match="closed by its user"):
        waiting[0].wait(PATIENCE_S)
    broker.start()


def test_asyncio_comes_back_too(broker: Broker) -> None:
    async def run() -> None:
        options = {"reconnect_delay_s": 0.05, "call_timeout_s": PATIENCE_S}
        async with await connect_async(broker.url, **options) as connection:
            back = asyncio.Event()
            connection.on_reconnected = back.set
            channel = await connection.channel()
            info = await channel.queue_declare(exclusive=True)
            name = info.name
            await channel.queue_bind(name, "amq.topic", "aio")
            await channel.queue_declare("aio.durable", durable=True)
            consumer = await channel.consume(name)
            broker.kill()
            while connection.is_open:
                await asyncio.sleep(0.01)
            waiting = [channel.publish(b"%d" % n, "aio.durable", properties=PERSISTENT) for n in range(100)]
            await asyncio.to_thread(broker.start)
            await asyncio.wait_for(back.wait(), PATIENCE_S)
            await asyncio.gather(*waiting)
            assert info.name != name
            await channel.publish(b"hello", "aio", "amq.topic")
            message: Message = await asyncio.wait_for(anext(consumer), PATIENCE_S)
            assert message.body == b"hello"
            message.ack()
            assert await channel.queue_delete("aio.durable") == 100

    asyncio.run(run())
