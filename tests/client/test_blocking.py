"""The blocking client against a real broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from embermq.client import (
    AuthenticationFailed,
    Channel,
    ChannelClosed,
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConsumerCancelled,
    Message,
    NotFound,
    Outgoing,
    PreconditionFailed,
    Properties,
    PublishFailed,
    connect,
)
from embermq.wire.methods import BasicQos
from tools.brokers import Broker
from tools.ports import free_port


def test_a_message_goes_and_comes(channel: Channel, queue: str) -> None:
    properties = Properties(content_type="text/plain", headers={"a": 1}, delivery_mode=2)
    channel.publish(b"hello", queue, properties=properties)
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"hello", "", queue)
    assert message.properties == properties
    assert message.headers == {"a": 1}
    assert not message.redelivered
    message.ack()
    assert channel.get(queue) is None


@pytest.mark.parametrize("size", [0, 1, 131072 - 8, 131072 - 7, 1_000_000])
def test_bodies_of_all_sizes(channel: Channel, queue: str, size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    channel.publish(body, queue)
    message = next(channel.consume(queue, timeout_s=60))
    assert message.body == body


@pytest.mark.parametrize("body", ["grüße", bytearray(b"array"), memoryview(b"view")])
def test_bodies_of_all_types(channel: Channel, queue: str, body: str | bytearray | memoryview) -> None:
    channel.publish(body, queue)
    message = channel.get(queue, no_ack=True)
    assert message is not None
    assert message.body == (body.encode() if isinstance(body, str) else bytes(body))


def test_what_is_no_body_is_refused_before_anything_is_sent(channel: Channel, queue: str) -> None:
    with pytest.raises(TypeError, match="encode it first"):
        channel.publish({"a": 1}, queue)  # type: ignore[arg-type]
    assert channel.get(queue) is None


def test_a_batch_is_confirmed_as_a_whole_and_keeps_its_order(channel: Channel, queue: str) -> None:
    bodies = [b"%d" % number for number in range(5000)]
    channel.publish_batch(bodies, queue)
    assert channel.unconfirmed_count == 0
    with channel.consume(queue, timeout_s=60, prefetch=5000) as consumer:
        got = consumer.fetch_all(5000, timeout_s=60)
        consumer.ack(got)
    assert [message.body for message in got] == bodies
    assert channel.queue_declare(queue, passive=True).message_count == 0


def test_messages_of_a_batch_may_have_their_own_address(channel: Channel, queue: str) -> None:
    channel.exchange_declare("client.topic", "topic", auto_delete=True)
    channel.queue_bind(queue, "client.topic", "a.*")
    channel.publish_batch(
        [
            b"plain",
            Outgoing("own key", routing_key="a.b", exchange="client.topic"),
            Outgoing(b"own properties", properties=Properties(type="x")),
            Outgoing(b"raw properties", properties=Properties(type="y").encode()),
        ],
        queue,
    )
    got = channel.consume(queue).fetch_all(4, timeout_s=60)
    assert [message.body for message in got] == [b"plain", b"own key", b"own properties", b"raw properties"]
    assert [message.routing_key for message in got] == [queue, "a.b", queue, queue]
    assert [message.properties.type for message in got] == [None, None, "x", "y"]


def test_a_batch_with_a_fault_in_it_sends_what_came_before(channel: Channel, queue: str) -> None:
    with pytest.raises(TypeError):
        channel.publish_batch([b"good", 5], queue)  # type: ignore[list-item]
    assert len(channel.consume(queue).fetch_all(1, timeout_s=60)) == 1
    assert channel.unconfirmed_count == 0


def test_a_batch_may_come_from_a_slow_generator(connection: Connection, channel: Channel, queue: str) -> None:
    def slowly() -> Iterator[bytes]:
        yield b"first"
        # The connection goes on meanwhile: another channel gets its answers.
        assert connection.channel().queue_declare(queue, passive=True).name == queue
        yield b"last"

    channel.publish_batch(slowly(), queue)
    assert channel.queue_purge(queue) == 2


def test_a_mandatory_message_without_a_queue_is_reported(channel: Channel, queue: str) -> None:
    returned: list[Message] = []
    told = threading.Event()
    channel.on_return = lambda message: (returned.append(message), told.set())[0]
    with pytest.raises(PublishFailed, match="no queue is bound") as caught:
        channel.publish(b"lost", "client.nowhere", mandatory=True)
    assert [message.body for message in caught.value.returned] == [b"lost"]
    assert caught.value.returned[0].reply_text == "312 NO_ROUTE"
    assert told.wait(60)
    assert returned[0].routing_key == "client.nowhere"
    channel.publish(b"found", queue, mandatory=True)


def test_returned_messages_of_a_batch_are_told_apart(channel: Channel, queue: str) -> None:
    batch = [
        Outgoing(b"%d" % number, routing_key=queue if number % 3 else "client.nowhere")
        for number in range(99)
    ]
    with pytest.raises(PublishFailed) as caught:
        channel.publish_batch(batch, mandatory=True)
    assert [message.body for message in caught.value.returned] == [b"%d" % n for n in range(0, 99, 3)]
    assert channel.queue_declare(queue, passive=True).message_count == 66


def test_a_refused_message_is_reported(channel: Channel) -> None:
    info = channel.queue_declare(
        exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    channel.publish(b"fits", info.name)
    with pytest.raises(PublishFailed, match="1 refused") as caught:
        channel.publish(b"too much", info.name)
    assert caught.value.nacked == 1


def test_confirms_can_be_waited_for_later(channel: Channel, queue: str) -> None:
    confirmations = [channel.publish_soon(b"x", queue) for _ in range(1000)]
    for confirmation in confirmations:
        confirmation.wait(60)
        assert confirmation.done
    assert channel.queue_declare(queue, passive=True).message_count == 1000


def test_a_channel_without_confirms(connection: Connection, queue: str) -> None:
    with connection.channel(confirms=False) as plain:
        plain.publish(b"one", queue)
        plain.publish_batch([b"two", b"three"], queue)
        got = plain.consume(queue).fetch_all(3, timeout_s=60)
        assert [message.body for message in got] == [b"one", b"two", b"three"]


def test_settling(channel: Channel, queue: str) -> None:
    channel.publish_batch([b"ack", b"nack", b"reject", b"drop"], queue)
    consumer = channel.consume(queue)
    ack, nack, reject, drop = consumer.fetch_all(4, timeout_s=60)
    ack.ack()
    ack.ack()  # twice does nothing
    nack.nack()
    reject.reject(requeue=True)
    drop.nack(requeue=False)
    again = consumer.fetch_all(2, timeout_s=60)
    assert sorted(message.body for message in again) == [b"nack", b"reject"]
    assert all(message.redelivered for message in again)
    again[1].ack(multiple=True)
    consumer.cancel()
    assert channel.queue_declare(queue, passive=True).message_count == 0


def test_cancelling_gives_back_what_was_not_read(channel: Channel, queue: str) -> None:
    channel.publish_batch([b"1", b"2", b"3"], queue)
    with channel.consume(queue, timeout_s=60) as consumer:
        next(consumer).ack()
    bodies = []
    while (message := channel.get(queue, no_ack=True)) is not None:
        bodies.append(message.body)
    assert bodies == [b"2", b"3"]


def test_iteration_ends_when_nothing_comes(channel: Channel, queue: str) -> None:
    assert list(channel.consume(queue, timeout_s=0.05)) == []


def test_a_callback_runs_in_its_own_thread(channel: Channel, queue: str) -> None:
    seen: list[tuple[bytes, str]] = []
    enough = threading.Event()

    def handle(message: Message) -> None:
        seen.append((message.body, threading.current_thread().name))
        message.ack()
        if len(seen) == 3:
            enough.set()

    with channel.consume(queue, handle):
        channel.publish_batch([b"1", b"2", b"3"], queue)
        assert enough.wait(60)
    assert [body for body, _ in seen] == [b"1", b"2", b"3"]
    assert all(name.startswith("embermq-consumer") for _, name in seen)


def test_a_failing_callback_gives_its_message_back_and_says_so(channel: Channel, queue: str) -> None:
    def fail(message: Message) -> None:
        raise RuntimeError("no")

    channel.publish(b"x", queue)
    consumer = channel.consume(queue, fail)
    with pytest.raises(RuntimeError, match="no"):
        consumer.join(60)
    message = channel.get(queue)
    assert message is not None and message.redelivered


def test_a_deleted_queue_ends_its_consumer(channel: Channel, queue: str) -> None:
    consumer = channel.consume(queue)
    channel.queue_delete(queue)
    with pytest.raises(ConsumerCancelled, match=queue):
        next(consumer)


def test_an_error_of_the_broker_closes_the_channel_only(connection: Connection) -> None:
    channel = connection.channel()
    with pytest.raises(NotFound, match="declare it first") as caught:
        channel.consume("client.no-such-queue")
    assert (caught.value.reply_code, caught.value.method) == (404, "basic.consume")
    assert "no queue 'client.no-such-queue'" in caught.value.reply_text
    assert channel.is_closed
    with pytest.raises(NotFound):
        channel.publish(b"x", "q")
    with connection.channel() as another:
        another.queue_declare(exclusive=True)


def test_a_publish_to_no_exchange_fails_its_confirmation(connection: Connection) -> None:
    channel = connection.channel()
    with pytest.raises(NotFound, match=r"no exchange 'client[.]no-such-exchange'"):
        channel.publish(b"x", "key", "client.no-such-exchange")


def test_other_properties_are_refused(connection: Connection, channel: Channel, queue: str) -> None:
    with pytest.raises(PreconditionFailed), connection.channel() as other:
        other.queue_declare(queue, exclusive=True, auto_delete=True)


def test_a_closed_channel_says_so(connection: Connection) -> None:
    channel = connection.channel()
    channel.close()
    channel.close()
    with pytest.raises(ChannelClosed, match="open another"):
        channel.get("q")


def test_a_transaction(connection: Connection, channel: Channel, queue: str) -> None:
    with connection.channel(confirms=False) as tx:
        with tx.transaction():
            tx.publish(b"kept", queue)
            assert channel.queue_declare(queue, passive=True).message_count == 0
        with pytest.raises(ZeroDivisionError), tx.transaction():
            tx.publish(b"not kept", queue)
            raise ZeroDivisionError
    assert channel.queue_declare(queue, passive=True).message_count == 1


def test_bindings_between_exchanges(channel: Channel, queue: str) -> None:
    channel.exchange_declare("client.from", "fanout")
    channel.exchange_declare("client.to", "fanout")
    channel.exchange_bind("client.to", "client.from")
    channel.queue_bind(queue, "client.to")
    channel.publish(b"through", exchange="client.from")
    assert channel.queue_purge(queue) == 1
    channel.exchange_unbind("client.to", "client.from")
    channel.queue_unbind(queue, "client.to")
    channel.publish(b"nowhere", exchange="client.from")
    assert channel.queue_purge(queue) == 0
    channel.exchange_delete("client.from")
    channel.exchange_delete("client.to")


def test_the_rest_of_the_methods(channel: Channel, queue: str) -> None:
    channel.publish(b"x", queue)
    message = channel.get(queue)
    assert message is not None
    channel.recover(requeue=True)
    again = channel.get(queue)
    assert again is not None and again.redelivered
    assert channel.flow(True) is True
    channel.qos(5, global_=True)
    channel.call(BasicQos(0, 7))
    channel.exchange_declare("client.gone")
    channel.exchange_delete("client.gone")


def test_many_threads_share_a_channel(channel: Channel, queue: str) -> None:
    def work() -> None:
        for _ in range(100):
            channel.publish(b"x", queue)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert channel.queue_purge(queue) == 400


def test_a_wrong_password_is_an_authentication_failure(ember: Broker) -> None:
    with pytest.raises(AuthenticationFailed, match="guest"):
        connect(f"amqp://guest:wrong@{ember.host}:{ember.port}/")


def test_an_unknown_virtual_host_is_refused(ember: Broker) -> None:
    with pytest.raises(AuthenticationFailed, match="nowhere"):
        connect(f"amqp://guest:guest@{ember.host}:{ember.port}/nowhere")


def test_nobody_there() -> None:
    with pytest.raises(ConnectionFailed, match="is a broker running there"):
        connect(f"amqp://localhost:{free_port()}")


def test_the_second_host_is_tried(ember: Broker) -> None:
    with connect(f"amqp://guest:guest@127.0.0.1:{free_port()},127.0.0.1:{ember.port}/") as connection:
        assert connection.is_open


def test_a_closed_connection_says_so_and_leaves_no_thread(ember: Broker) -> None:
    before = threading.active_count()
    connection = connect(ember.url)
    channel = connection.channel()
    connection.close()
    connection.close()
    assert connection.is_closed
    assert threading.active_count() == before
    with pytest.raises(ConnectionClosed, match="closed by its user"):
        channel.publish(b"x", "q")
    with pytest.raises(ConnectionClosed):
        connection.channel()


def test_closing_ends_a_waiting_consumer(ember: Broker) -> None:
    connection = connect(ember.url)
    channel = connection.channel()
    consumer = channel.consume(channel.queue_declare(exclusive=True).name)
    threading.Timer(0.1, connection.close).start()
    with pytest.raises(ConnectionClosed):
        next(consumer)


def test_no_answer_in_time(connection: Connection, channel: Channel, queue: str) -> None:
    consumer = channel.consume(queue)
    began = time.monotonic()
    assert consumer.fetch(10, timeout_s=0.05) == []
    assert time.monotonic() - began >= 0.05


def test_an_answer_that_does_not_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConnectionFailed, match="did not finish the handshake"):
            connect(f"amqp://localhost:{port}?socket_timeout=0.1")
