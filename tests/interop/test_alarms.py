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


@pytest.fixture
def small_broker() -> Iterator[EmberBroker]:
    """One whose high watermark (about 60 MB on a machine of 24 GiB) one queue in memory passes."""
    with open("/proc/meminfo") as file:
        total_bytes = int(file.readline().split()[1]) * 1024
    with EmberBroker(memory_high_watermark=60e6 / total_bytes) as broker:
        yield broker


def test_memory_alarm_blocks_publishers_and_clears(small_broker: EmberBroker) -> None:
    parameters = pika.URLParameters(small_broker.url)
    events: list[str] = []
    publisher = pika.BlockingConnection(parameters)
    publisher.add_on_connection_blocked_callback(lambda _, frame: events.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda _, frame: events.append("unblocked"))
    channel = publisher.channel()
    channel.queue_declare("alarm")
    published = 0
    deadline = time.monotonic() + PATIENCE_S
    while not events and time.monotonic() < deadline:
        channel.basic_publish("", "alarm", BODY)
        published += 1
        publisher.process_data_events(0)
    assert events == ["low on memory"]

    consumer = pika.BlockingConnection(parameters)
    received = 0
    deadline = time.monotonic() + PATIENCE_S
    # What was under way when the door closed arrives after all: nothing is lost.
    for method, _, body in consumer.channel().consume("alarm", auto_ack=True, inactivity_timeout=0.1):
        if method is None:
            publisher.process_data_events(0)
        else:
            assert body == BODY
            received += 1
        if received == published and len(events) > 1 or time.monotonic() > deadline:
            break
    assert events == ["low on memory", "unblocked"]
    assert received == published
    publisher.close()
    consumer.close()


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
