"""pika's BlockingConnection: contents as they come back, confirms, returns and transactions."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    UnroutableError,
)

from tests.interop.pika_blocking.shortcuts import depth, get, get_all, parameters
from tests.interop.property_values import DECIMALS, HEADERS, INSTANT, PROPERTIES
from tools.brokers import Broker

Names = Callable[[str], str]


def test_all_properties_round_trip(channel: BlockingChannel, queue: str) -> None:
    timestamp = int(INSTANT.timestamp())
    sent = pika.BasicProperties(
        **PROPERTIES, type="kind", cluster_id="old", timestamp=timestamp, headers={"a": 1}
    )
    channel.basic_publish("", queue, b"body", sent)
    _, received, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"body"
    assert received == sent
    assert received.timestamp == timestamp


def test_no_properties_stay_no_properties(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"bare")
    _, received, _ = channel.basic_get(queue, auto_ack=True)
    assert received == pika.BasicProperties()


def test_header_value_types_round_trip(channel: BlockingChannel, queue: str) -> None:
    sent = {**HEADERS, **DECIMALS, "bytes": b"\x00\xff"}  # pika writes no floating point numbers
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=sent))
    _, received, _ = channel.basic_get(queue, auto_ack=True)
    for name, value in sent.items():
        expected = value.replace(tzinfo=None) if name == "when" else value
        got = received.headers[name]
        got = got.replace(tzinfo=None) if name == "when" else got
        assert got == expected, name


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_003, 20_000_000])
def test_body_sizes_around_the_frame_limit(channel: BlockingChannel, queue: str, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert get(channel, queue) == body


def test_confirmed_publish_is_visible_to_everybody(
    broker: Broker, channel: BlockingChannel, queue_name: str
) -> None:
    channel.queue_declare(queue_name, durable=True)
    channel.confirm_delivery()
    for number in range(50):
        persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent.value)
        channel.basic_publish("", queue_name, b"%d" % number, persistent, mandatory=True)
    with pika.BlockingConnection(parameters(broker)) as other:
        assert get_all(other.channel(), queue_name) == [b"%d" % number for number in range(50)]
    channel.queue_delete(queue_name)


def test_unroutable_mandatory_message_raises(channel: BlockingChannel, fresh_name: Names) -> None:
    channel.confirm_delivery()
    key = fresh_name("nowhere")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", key, b"come back", pika.BasicProperties(message_id="1"), mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", key)
    assert (returned.properties.message_id, returned.body) == ("1", b"come back")
    channel.basic_publish("", key, b"dropped silently")


def test_return_callback_without_confirms(
    connection: pika.BlockingConnection, channel: BlockingChannel, fresh_name: Names
) -> None:
    returned: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(lambda _c, method, _p, body: returned.append((method.reply_code, body)))
    channel.basic_publish("", fresh_name("nowhere"), b"", mandatory=True)
    channel.basic_publish("", fresh_name("nowhere"), b"y" * 300_000, mandatory=True)
    while len(returned) < 2:
        connection.process_data_events(time_limit=60)
    assert returned == [(312, b""), (312, b"y" * 300_000)]


def test_transactions_commit_and_roll_back(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    transactional = connection.channel()
    transactional.tx_select()
    transactional.basic_publish("", queue, b"taken back")
    transactional.tx_rollback()
    transactional.basic_publish("", queue, b"kept 1")
    transactional.basic_publish("", queue, b"kept 2")
    assert depth(channel, queue) == 0
    transactional.tx_commit()
    assert depth(channel, queue) == 2

    method, _, _ = transactional.basic_get(queue)
    transactional.basic_ack(method.delivery_tag)
    transactional.tx_rollback()
    transactional.basic_ack(method.delivery_tag)
    transactional.tx_commit()
    transactional.close()
    assert get_all(channel, queue) == [b"kept 2"]


def test_confirm_mode_and_transactions_exclude_each_other(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_select()
    assert caught.value.reply_code == 406
