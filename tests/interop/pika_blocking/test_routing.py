"""pika's BlockingConnection: queues, exchanges and bindings."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
)

from tests.interop.pika_blocking.shortcuts import get, get_all, parameters
from tools.brokers import Broker

Names = Callable[[str], str]


def test_exclusive_queue_is_locked_for_others_and_goes_with_its_owner(
    broker: Broker, queue_name: str
) -> None:
    with pika.BlockingConnection(parameters(broker)) as other:
        with pika.BlockingConnection(parameters(broker)) as owner:
            owner.channel().queue_declare(queue_name, exclusive=True)
            with pytest.raises(ChannelClosedByBroker) as caught:
                other.channel().queue_declare(queue_name, passive=True)
            assert caught.value.reply_code == 405
        with pytest.raises(ChannelClosedByBroker) as caught:
            other.channel().queue_declare(queue_name, passive=True)
        assert caught.value.reply_code == 404


def test_auto_delete_queue_goes_with_its_last_consumer(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue_name: str
) -> None:
    channel.queue_declare(queue_name, auto_delete=True)
    tag = channel.basic_consume(queue_name, lambda *_: None)
    assert channel.queue_declare(queue_name, passive=True).method.consumer_count == 1
    channel.basic_cancel(tag)
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(queue_name, passive=True)
    assert caught.value.reply_code == 404


def test_purge_and_delete_count_messages(channel: BlockingChannel, queue_name: str) -> None:
    channel.queue_declare(queue_name)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", queue_name, b"x")
    assert channel.queue_purge(queue_name).method.message_count == 3
    channel.basic_publish("", queue_name, b"x")
    assert channel.queue_delete(queue_name).method.message_count == 1
    # RabbitMQ's choice, on which clients rely: deleting what is not there succeeds.
    assert channel.queue_delete(queue_name).method.message_count == 0


@pytest.mark.parametrize("condition", ["if_empty", "if_unused"])
def test_conditional_delete_is_refused(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue_name: str, condition: str
) -> None:
    channel.queue_declare(queue_name)
    channel.confirm_delivery()
    channel.basic_publish("", queue_name, b"in the way")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue_name, lambda *_: None)
    channel.basic_publish("", queue_name, b"still there")
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_delete(queue_name, **{condition: True})
    assert caught.value.reply_code == 406
    channel.queue_delete(queue_name)


def test_topic_exchange_routes_by_pattern(channel: BlockingChannel, queue: str, exchange_name: str) -> None:
    channel.exchange_declare(exchange_name, "topic", auto_delete=True)
    for pattern in ("stock.*.nyse", "weather.#", "#.end"):
        channel.queue_bind(queue, exchange_name, pattern)
    channel.confirm_delivery()
    expected = ["stock.ibm.nyse", "weather", "weather.eu.de", "end", "a.b.end", "weather.end"]
    for key in [*expected, "stock.nyse", "stock.a.b.nyse", "weathers", "ending"]:
        channel.basic_publish(exchange_name, key, key.encode())
    assert get_all(channel, queue) == [key.encode() for key in expected]
    channel.queue_unbind(queue, exchange_name, "weather.#")
    channel.basic_publish(exchange_name, "weather.eu", b"")
    assert get(channel, queue) is None


def test_headers_exchange_matches_all_or_any(channel: BlockingChannel, exchange_name: str) -> None:
    channel.exchange_declare(exchange_name, "headers", auto_delete=True)
    strict, lax = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    wanted = {"format": "pdf", "pages": 3}
    channel.queue_bind(strict, exchange_name, arguments={"x-match": "all", **wanted})
    channel.queue_bind(lax, exchange_name, arguments={"x-match": "any", **wanted})
    channel.confirm_delivery()
    for number, headers in enumerate(
        [wanted, {"format": "pdf"}, {"pages": 3, "more": True}, {"pages": 4}, {}]
    ):
        channel.basic_publish(exchange_name, "", b"%d" % number, pika.BasicProperties(headers=headers))
    assert get_all(channel, strict) == [b"0"]
    assert get_all(channel, lax) == [b"0", b"1", b"2"]


def test_exchange_to_exchange_binding(channel: BlockingChannel, queue: str, fresh_name: Names) -> None:
    source, middle = fresh_name("source"), fresh_name("middle")
    channel.exchange_declare(source, "direct")
    channel.exchange_declare(middle, "fanout")
    channel.exchange_bind(destination=middle, source=source, routing_key="through")
    channel.queue_bind(queue, middle)
    channel.confirm_delivery()
    channel.basic_publish(source, "through", b"1")
    channel.basic_publish(source, "past", b"2")
    assert get_all(channel, queue) == [b"1"]
    channel.exchange_unbind(destination=middle, source=source, routing_key="through")
    channel.basic_publish(source, "through", b"3")
    assert get(channel, queue) is None
    channel.exchange_delete(source)
    channel.exchange_delete(middle)


def test_internal_exchange_takes_no_publishes(
    connection: pika.BlockingConnection, exchange_name: str
) -> None:
    channel = connection.channel()
    channel.exchange_declare(exchange_name, "fanout", internal=True, auto_delete=True)
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish(exchange_name, "", b"x")
    assert caught.value.reply_code == 403
