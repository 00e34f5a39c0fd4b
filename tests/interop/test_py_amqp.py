"""py-amqp, the client under kombu and Celery: blocking, with `drain_events` as its only clock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import amqp
import pytest
from amqp.exceptions import (
    AccessRefused,
    ConsumerCancelled,
    MessageNacked,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)

from tests.interop.property_values import DECIMALS, FLOATS, HEADERS, INSTANT, PROPERTIES
from tools.brokers import Broker

Names = Callable[[str], str]


def connect(broker: Broker, **options: object) -> amqp.Connection:
    connection = amqp.Connection(f"{broker.host}:{broker.port}", **options)
    connection.connect()
    return connection


@pytest.fixture
def connection(broker: Broker) -> Iterator[amqp.Connection]:
    with connect(broker, confirm_publish=True) as connection:
        yield connection


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


@pytest.fixture
def queue(channel: amqp.Channel, queue_name: str) -> str:
    channel.queue_declare(queue_name, exclusive=True, auto_delete=False)
    return queue_name


def bodies(channel: amqp.Channel, queue: str) -> list[bytes]:
    found = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(message.body if isinstance(message.body, bytes) else message.body.encode())
    return found


def test_wrong_password(broker: Broker) -> None:
    with pytest.raises(AccessRefused, match="ACCESS_REFUSED"):
        connect(broker, password="wrong")


def test_unknown_vhost(broker: Broker) -> None:
    with pytest.raises(NotAllowed, match="vhost /nowhere not found"):
        connect(broker, virtual_host="/nowhere")


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_sasl_mechanisms(broker: Broker, mechanism: str) -> None:
    with connect(broker, login_method=mechanism, userid="guest", password="guest") as connection:
        assert mechanism.encode() in connection.mechanisms
        assert connection.connected


def test_server_properties_and_tuning(broker: Broker) -> None:
    with connect(broker, heartbeat=9) as connection:
        assert connection.server_properties["product"]
        assert connection.server_properties["version"]
        assert connection.server_capabilities["publisher_confirms"] is True
        assert connection.server_capabilities["consumer_cancel_notify"] is True
        assert (connection.frame_max, connection.heartbeat) == (131_072, 9)
        assert connection.channel_max >= 2047


def test_heartbeat_ticks(broker: Broker) -> None:
    with connect(broker, heartbeat=1) as connection:
        over = time.monotonic() + 3.5  # either side gives up after two beats
        while time.monotonic() < over:
            # Not drain_events: it starts its timeout anew with every heartbeat and would stay in there.
            with contextlib.suppress(TimeoutError):
                connection.blocking_read(timeout=0.2)
            connection.heartbeat_tick(rate=2)  # sends ours when due, raises when theirs did not come
        assert connection.channel().queue_declare(exclusive=True).message_count == 0


def test_blocked_handlers_can_be_registered(broker: Broker) -> None:
    events: list[str] = []
    with connect(
        broker,
        confirm_publish=True,
        on_blocked=lambda *_: events.append("blocked"),
        on_unblocked=lambda: events.append("unblocked"),
    ) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True).queue
        channel.basic_publish(amqp.Message("flows"), routing_key=queue)
        assert bodies(channel, queue) == [b"flows"]
    assert events == []


def test_many_channels(connection: amqp.Connection) -> None:
    channels = [connection.channel() for _ in range(150)]
    assert len({each.channel_id for each in channels}) == 150
    for each in channels:
        each.close()
    assert connection.channel().is_open


def test_channel_error_then_a_new_channel(connection: amqp.Connection) -> None:
    channel = connection.channel()
    with pytest.raises(NotFound, match=r"no queue 'interop\.never' in vhost '/'"):
        channel.queue_declare("interop.never", passive=True)
    assert connection.connected
    assert connection.channel().queue_declare(exclusive=True).queue.startswith("amq.gen-")


def test_exclusive_queue(broker: Broker, queue: str) -> None:
    with connect(broker) as other, pytest.raises(ResourceLocked):
        other.channel().queue_declare(queue, passive=True)


def test_inequivalent_exchange(
    connection: amqp.Connection, channel: amqp.Channel, exchange_name: str
) -> None:
    channel.exchange_declare(exchange_name, "direct", auto_delete=False)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        connection.channel().exchange_declare(exchange_name, "fanout", auto_delete=False)
    channel.exchange_delete(exchange_name)


def test_publish_confirm_and_get(channel: amqp.Channel, queue: str) -> None:
    assert channel.basic_get(queue) is None
    for number in range(20):
        channel.basic_publish(amqp.Message(b"%d" % number, delivery_mode=2), routing_key=queue)
    message = channel.basic_get(queue)
    assert message.delivery_info["message_count"] == 19
    assert message.delivery_info["redelivered"] is False
    channel.basic_reject(message.delivery_tag, requeue=True)
    message = channel.basic_get(queue)
    assert message.delivery_info["redelivered"] is True
    channel.basic_ack(message.delivery_tag)
    assert bodies(channel, queue) == [b"%d" % number for number in range(1, 20)]


def test_mandatory_unroutable_is_returned_then_acked(channel: amqp.Channel, queue_name: str) -> None:
    returned: list[tuple[int, str, str]] = []
    channel.events["basic_return"].add(
        lambda error, exchange, key, message: returned.append((error.reply_code, key, message.body))
    )
    channel.basic_publish(amqp.Message("back"), routing_key=queue_name, mandatory=True)
    assert returned == [(312, queue_name, "back")]


def test_properties_and_headers_round_trip(channel: amqp.Channel, queue: str) -> None:
    headers = {**HEADERS, **DECIMALS, **FLOATS, "when": INSTANT.replace(tzinfo=None)}
    timestamp = int(INSTANT.timestamp())
    sent = amqp.Message(
        b"\x00\xff", **PROPERTIES, type="t", timestamp=timestamp, cluster_id="c", application_headers=headers
    )
    channel.basic_publish(sent, routing_key=queue)
    received = channel.basic_get(queue, no_ack=True)
    for name, value in PROPERTIES.items():
        if name != "content_encoding":
            assert received.properties[name] == value, name
    assert received.properties["type"] == "t"
    assert received.properties["timestamp"] == timestamp
    for name, value in headers.items():
        assert received.headers[name] == value, name


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 3_000_000])
def test_body_sizes(channel: amqp.Channel, queue: str, size: int) -> None:
    channel.basic_publish(amqp.Message(b"s" * size), routing_key=queue)
    assert bodies(channel, queue) == [b"s" * size]


def test_consume_with_qos(connection: amqp.Connection, channel: amqp.Channel, queue: str) -> None:
    for number in range(6):
        channel.basic_publish(amqp.Message(b"%d" % number), routing_key=queue)
    reader = connection.channel()
    reader.basic_qos(prefetch_size=0, prefetch_count=2, a_global=False)
    seen: list[amqp.Message] = []
    tag = reader.basic_consume(queue, callback=seen.append)
    while len(seen) < 2:
        connection.drain_events(timeout=60)
    assert reader.queue_declare(queue, passive=True).message_count == 4
    assert len(seen) == 2
    reader.basic_ack(0, multiple=True)
    while len(seen) < 4:
        connection.drain_events(timeout=60)
    reader.basic_cancel(tag)
    reader.basic_recover(requeue=True)
    reader.close()
    assert bodies(channel, queue) == [b"2", b"3", b"4", b"5"]


def test_consumer_cancelled_by_the_broker(
    connection: amqp.Connection, channel: amqp.Channel, queue_name: str
) -> None:
    channel.queue_declare(queue_name, auto_delete=False)
    channel.basic_consume(queue_name, consumer_tag="told", on_cancel=(told := []).append)
    connection.channel().queue_delete(queue_name)
    while not told:
        connection.drain_events(timeout=60)
    assert told == ["told"]


def test_consumer_cancelled_without_a_handler_raises(
    connection: amqp.Connection, channel: amqp.Channel, queue_name: str
) -> None:
    channel.queue_declare(queue_name, auto_delete=False)
    channel.basic_consume(queue_name, consumer_tag="told")
    other = connection.channel()

    def delete_and_listen() -> None:
        other.queue_delete(queue_name)
        connection.drain_events(timeout=60)

    with pytest.raises(ConsumerCancelled, match="told"):
        delete_and_listen()


def test_deleting_the_queue_one_consumes_is_answered_before_the_cancel(
    connection: amqp.Connection, channel: amqp.Channel, queue_name: str
) -> None:
    """The other way round py-amqp raises inside queue_delete and never sees its answer."""
    channel.queue_declare(queue_name, auto_delete=False)
    channel.basic_consume(queue_name, consumer_tag="own")
    assert channel.queue_delete(queue_name) == 0
    with pytest.raises(ConsumerCancelled, match="own"):
        connection.drain_events(timeout=60)


def test_exchange_to_exchange_and_topic(channel: amqp.Channel, queue: str, fresh_name: Names) -> None:
    source, target = fresh_name("source"), fresh_name("target")
    channel.exchange_declare(source, "topic", auto_delete=False)
    channel.exchange_declare(target, "fanout", auto_delete=False)
    channel.exchange_bind(target, source, "#.error")
    channel.queue_bind(queue, target)
    for key in ("disk.error", "error", "disk.fine"):
        channel.basic_publish(amqp.Message(key), source, key)
    assert bodies(channel, queue) == [b"disk.error", b"error"]
    channel.exchange_unbind(target, source, "#.error")
    channel.exchange_delete(source, if_unused=True)
    channel.exchange_delete(target)


def test_headers_exchange(channel: amqp.Channel, queue: str) -> None:
    channel.queue_bind(queue, "amq.headers", arguments={"x-match": "any", "a": 1, "b": "two"})
    for body, headers in (("1", {"a": 1}), ("2", {"a": 2, "b": "two"}), ("3", {"a": 2})):
        channel.basic_publish(amqp.Message(body, application_headers=headers), "amq.headers")
    assert bodies(channel, queue) == [b"1", b"2"]


def test_transactions(broker: Broker, queue_name: str) -> None:
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare(queue_name, exclusive=True)
        channel.tx_select()
        channel.basic_publish(amqp.Message("no"), routing_key=queue_name)
        channel.tx_rollback()
        channel.basic_publish(amqp.Message("yes"), routing_key=queue_name)
        assert channel.queue_declare(queue_name, passive=True).message_count == 0
        channel.tx_commit()
        assert bodies(channel, queue_name) == [b"yes"]


def test_nacked_publish_raises(channel: amqp.Channel, queue_name: str) -> None:
    limit = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue_name, exclusive=True, arguments=limit)
    channel.basic_publish(amqp.Message("fits"), routing_key=queue_name)
    with pytest.raises(MessageNacked):
        channel.basic_publish(amqp.Message("does not"), routing_key=queue_name)


def test_broker_closes_the_connection(broker: Broker, exchange_name: str) -> None:
    connection = connect(broker)
    with pytest.raises(amqp.exceptions.InvalidCommand):
        connection.channel().exchange_declare(exchange_name, "no-such-type")
    assert not connection.connected
