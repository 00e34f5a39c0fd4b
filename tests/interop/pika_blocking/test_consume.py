"""pika's BlockingConnection: get, acknowledgements, prefetch, consumers, and the tutorials' patterns."""

from __future__ import annotations

import threading

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    NackError,
)

from tests.interop.pika_blocking.shortcuts import depth, get_all, parameters
from tools.brokers import Broker


def test_get_reports_count_and_redelivery(channel: BlockingChannel, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    method, _, body = channel.basic_get(queue)
    assert (method.message_count, method.redelivered, method.routing_key, body) == (2, False, queue, b"0")
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"0")
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert get_all(channel, queue) == [b"1", b"2"]


def test_ack_multiple_covers_everything_before(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    reader = connection.channel()
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    tags = [reader.basic_get(queue)[0].delivery_tag for _ in range(5)]
    reader.basic_ack(tags[2], multiple=True)
    reader.close()
    assert get_all(channel, queue) == [b"3", b"4"]


def test_closing_a_channel_requeues_in_order(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    channel.confirm_delivery()
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
    reader = connection.channel()
    for _ in range(3):
        reader.basic_get(queue)
    reader.close()
    received = [channel.basic_get(queue, auto_ack=True) for _ in range(4)]
    assert [body for _, _, body in received] == [b"0", b"1", b"2", b"3"]
    assert [method.redelivered for method, _, _ in received] == [True, True, True, False]


def test_recover_redelivers_unacknowledged_messages(channel: BlockingChannel, queue: str) -> None:
    seen: list[tuple[bytes, bool]] = []

    def on_message(
        _channel: BlockingChannel, method: pika.spec.Basic.Deliver, _p: object, body: bytes
    ) -> None:
        seen.append((body, method.redelivered))
        if len(seen) == 2:
            channel.basic_recover(requeue=True)
        if len(seen) == 4:
            channel.stop_consuming()

    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    assert seen == [(b"1", False), (b"2", False), (b"1", True), (b"2", True)]


@pytest.mark.parametrize("shared", [False, True])
def test_prefetch_limits_unacknowledged_messages(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str, shared: bool
) -> None:
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=3, global_qos=shared)
    seen: list[int] = []
    reader.basic_consume(queue, lambda _c, method, _p, _b: seen.append(method.delivery_tag))
    while len(seen) < 3:
        connection.process_data_events(time_limit=60)
    # A round trip on the same channel: whatever was going to be pushed has been pushed before its answer.
    assert depth(reader, queue) == 7
    connection.process_data_events()
    assert seen == [1, 2, 3]
    reader.basic_ack(2, multiple=True)
    while len(seen) < 5:
        connection.process_data_events(time_limit=60)
    assert depth(reader, queue) == 5
    connection.process_data_events()
    assert seen == [1, 2, 3, 4, 5]


def test_consumers_take_turns(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    seen: dict[str, int] = {"a": 0, "b": 0}

    def count(_channel: object, method: pika.spec.Basic.Deliver, *_: object) -> None:
        seen[method.consumer_tag] += 1

    for tag in seen:
        channel.basic_consume(queue, count, auto_ack=True, consumer_tag=tag)
    for _ in range(20):
        channel.basic_publish("", queue, b"x")
    while sum(seen.values()) < 20:
        connection.process_data_events(time_limit=60)
    assert seen == {"a": 10, "b": 10}


def test_exclusive_consumer_keeps_others_out(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().basic_consume(queue, lambda *_: None)
    assert caught.value.reply_code == 403


def test_consumer_is_told_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue_name: str
) -> None:
    channel.queue_declare(queue_name)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue_name, lambda *_: None)
    connection.channel().queue_delete(queue_name)
    while not cancelled:
        connection.process_data_events(time_limit=60)
    assert cancelled == [tag]
    assert channel.consumer_tags == []
    assert channel.is_open


def test_start_consuming_ends_when_the_queue_is_deleted(broker: Broker, queue_name: str) -> None:
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue_name)

        def delete_queue(consuming: BlockingChannel, *_: object) -> None:
            connection.channel().queue_delete(queue_name)

        channel.basic_consume(queue_name, delete_queue, auto_ack=True)
        channel.basic_publish("", queue_name, b"go")
        channel.start_consuming()  # returns because no consumer is left
        assert channel.consumer_tags == []


def test_consume_generator_with_inactivity_timeout(channel: BlockingChannel, queue: str) -> None:
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=0.1):
        if method is None:
            if len(bodies) < 3:
                continue  # a busy machine
            break
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
    assert bodies == [b"0", b"1", b"2"]
    assert channel.cancel() == 0


def test_cancelling_the_generator_requeues_what_was_not_read(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    method, _, body = next(channel.consume(queue))
    assert body == b"0"
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert get_all(channel, queue) == [b"1", b"2", b"3", b"4"]


def test_flow_on_is_always_fine(connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
    assert channel.flow(active=True) is True
    assert channel.is_open


def test_flow_off_holds_deliveries_back(
    broker: Broker, connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    if broker.name == "rabbitmq":
        pytest.skip("RabbitMQ refuses channel.flow(active=false) with 540")
    reader = connection.channel()
    seen: list[bytes] = []
    reader.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    assert reader.flow(active=False) is False
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"later")
    assert depth(reader, queue) == 1
    assert seen == []
    assert reader.flow(active=True) is True
    while not seen:
        connection.process_data_events(time_limit=60)
    assert seen == [b"later"]


def test_rpc_over_an_exclusive_reply_queue(broker: Broker, queue_name: str) -> None:
    ready = threading.Event()

    def serve() -> None:
        with pika.BlockingConnection(parameters(broker)) as connection:
            channel = connection.channel()
            channel.queue_declare(queue_name, auto_delete=True)
            channel.basic_qos(prefetch_count=1)

            def answer(_c: object, method: object, properties: pika.BasicProperties, body: bytes) -> None:
                reply = pika.BasicProperties(correlation_id=properties.correlation_id)
                channel.basic_publish("", properties.reply_to, b"%d" % (int(body) ** 2), reply)
                channel.basic_ack(method.delivery_tag)
                if body == b"9":
                    channel.stop_consuming()

            channel.basic_consume(queue_name, answer)
            ready.set()
            channel.start_consuming()

    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(60)
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        replies = channel.queue_declare("", exclusive=True).method.queue
        answers: dict[str, bytes] = {}
        channel.basic_consume(
            replies,
            lambda _c, _m, properties, body: answers.update({properties.correlation_id: body}),
            auto_ack=True,
        )
        for number in range(10):
            asked = pika.BasicProperties(reply_to=replies, correlation_id=str(number))
            channel.basic_publish("", queue_name, b"%d" % number, asked)
        while len(answers) < 10:
            connection.process_data_events(time_limit=60)
    server.join()
    assert answers == {str(number): b"%d" % number**2 for number in range(10)}


def test_threads_publish_through_one_connection(broker: Broker, queue_name: str) -> None:
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue_name, exclusive=True)
        seen: list[bytes] = []
        channel.basic_consume(queue_name, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)

        def publish(body: bytes) -> None:
            connection.add_callback_threadsafe(lambda: channel.basic_publish("", queue_name, body))

        threads = [threading.Thread(target=publish, args=(b"%d" % number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        while len(seen) < 8:
            connection.process_data_events(time_limit=60)
        for thread in threads:
            thread.join()
    assert sorted(seen) == [b"%d" % number for number in range(8)]


def test_direct_reply_to(channel: BlockingChannel, queue: str) -> None:
    """RabbitMQ's pseudo queue: consume without ack, publish with reply_to, the answer comes back."""
    answers = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda _c, _m, _p, body: answers.append(body), auto_ack=True
    )
    channel.basic_publish("", queue, b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    _, request, _ = channel.basic_get(queue, auto_ack=True)
    assert request.reply_to.startswith("amq.rabbitmq.reply-to.")
    channel.basic_publish("", request.reply_to, b"!")
    while not answers:
        channel.connection.process_data_events(time_limit=60)
    assert answers == [b"!"]


def test_rejected_by_a_full_queue_is_a_nack(connection: pika.BlockingConnection, queue_name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(
        queue_name, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    channel.confirm_delivery()
    channel.basic_publish("", queue_name, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue_name, b"does not")
    assert get_all(channel, queue_name) == [b"fits"]
