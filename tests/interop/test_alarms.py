"""A broker short of memory: publishers are held and told, consumers go on, and it clears by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pika
import pytest

from tools.brokers import EmberBroker

BODY = b"x" * 100_000
PATIENCE_S = 60.0


def watermark(limit_bytes: float) -> float:
    with open("/proc/meminfo") as file:
        return limit_bytes / (int(file.readline().split()[1]) * 1024)


@pytest.fixture
def small_broker() -> Iterator[EmberBroker]:
    """One whose high watermark some tens of megabytes in memory pass."""
    with EmberBroker(memory_high_watermark=watermark(120e6)) as broker:
        yield broker


def test_memory_alarm_blocks_publishers_and_clears(small_broker: EmberBroker) -> None:
    """What is out with consumers is in memory; queues would rather live on the disk."""
    parameters = pika.URLParameters(small_broker.url)
    consumer = pika.BlockingConnection(parameters)
    taking = consumer.channel()
    taking.queue_declare("alarm")
    taken: list[int] = []

    def take(_: object, method: pika.spec.Basic.Deliver, properties: object, body: bytes) -> None:
        assert body == BODY
        taken.append(method.delivery_tag)

    taking.basic_consume("alarm", take)
    events: list[str] = []
    publisher = pika.BlockingConnection(parameters)
    publisher.add_on_connection_blocked_callback(lambda _, frame: events.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda _, frame: events.append("unblocked"))
    channel = publisher.channel()
    published = 0
    deadline = time.monotonic() + PATIENCE_S
    while not events and time.monotonic() < deadline:
        channel.basic_publish("", "alarm", BODY)
        published += 1
        publisher.process_data_events(0)
        consumer.process_data_events(0)
    assert events == ["low on memory"]

    deadline = time.monotonic() + PATIENCE_S
    settled = 0
    # What was under way when the door closed arrives after all: nothing is lost.
    while (len(taken) < published or len(events) < 2) and time.monotonic() < deadline:
        if len(taken) > settled:
            settled = len(taken)
            taking.basic_ack(taken[-1], multiple=True)
        consumer.process_data_events(0.1)
        publisher.process_data_events(0)
    assert events == ["low on memory", "unblocked"]
    assert len(taken) == published
    publisher.close()
    consumer.close()


def test_many_long_queues_raise_no_alarm() -> None:
    """What is on the disk anyway need not fill the memory: nobody would ever be let go on.

    The broker looks at its memory twice a second. Between the half of the limit, from which on queues keep
    less, and the limit itself is more than this client can publish in that time.
    """
    with EmberBroker(memory_high_watermark=watermark(240e6)) as broker:
        publish_to_many(broker, rounds=320)


def publish_to_many(broker: EmberBroker, rounds: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    events: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: events.append(frame.method.reason))
    channel = connection.channel()
    names = [f"long-{number}" for number in range(10)]
    for name in names:
        channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for _ in range(rounds):
        for name in names:
            channel.basic_publish("", name, BODY, pika.BasicProperties(delivery_mode=2))
    assert events == []
    for name in names:
        assert channel.queue_declare(name, passive=True).method.message_count == rounds
    connection.close()


def test_disk_alarm_holds_publishers_only() -> None:
    """A limit no disk can meet: publishing waits from the first message on that finds the alarm, everything
    else works."""
    with EmberBroker(disk_free_limit=2**62) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        blocked: list[str] = []
        connection.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
        channel = connection.channel()
        channel.queue_declare("held")
        published = 0
        deadline = time.monotonic() + PATIENCE_S
        while not blocked and time.monotonic() < deadline:
            channel.basic_publish("", "held", b"x")
            published += 1
            connection.process_data_events(0.05)
        assert blocked == ["low on disk"]
        other = pika.BlockingConnection(pika.URLParameters(broker.url))
        assert other.channel().queue_declare("held", passive=True).method.message_count < published
        other.close()
    # Held publishers are not heard: closing needs a broker that is gone.
    with suppress(pika.exceptions.AMQPError):
        connection.close()
