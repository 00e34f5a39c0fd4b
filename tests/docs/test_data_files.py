"""What docs/data-files.md says is enough to read what brokers leave behind, and nothing of it is wrong."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.data_files_reader import DataDirectory, segments
from tools.brokers import EmberBroker

HOUR_MS = 3_600_000
CITIES = (b"oslo", b"paris", b"rome")


def properties(**fields: Any) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, **fields)


def fill_plain(channel: BlockingChannel) -> None:
    channel.queue_declare("plain", durable=True, arguments={"x-delivery-limit": 9})
    for number in range(300):
        # Lone publishers' files have room at their ends.
        channel.basic_publish("", "plain", b"%d" % number * (1 + number % 700), properties())
        channel.basic_publish("", "plain", b"not to be kept", pika.BasicProperties(delivery_mode=1))
    for number in range(4):
        channel.basic_publish("", "plain", b"urgent %d" % number, properties(priority=5 + number))
    tags = [channel.basic_get("plain")[0].delivery_tag for _ in range(10)]
    for at, tag in enumerate(tags):
        if at % 3:
            channel.basic_nack(tag, requeue=True)
        else:
            channel.basic_ack(tag)
    channel.queue_declare("plain", passive=True)  # the broker has done what we asked for before


def fill_priorities(channel: BlockingChannel) -> None:
    channel.queue_declare("priorities", durable=True, arguments={"x-max-priority": 3})
    for number in range(20):
        channel.basic_publish("", "priorities", b"%d" % number, properties(priority=number % 5))


def fill_large(channel: BlockingChannel) -> None:
    channel.queue_declare("large", durable=True)
    for number in range(9):
        channel.basic_publish("", "large", bytes([number]) * 3_000_000, properties())


def fill_stream(channel: BlockingChannel) -> None:
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 100_000}
    channel.queue_declare("stream", durable=True, arguments=arguments)
    for number in range(400):
        headers = {"x-stream-filter-value": CITIES[number // 150].decode()} if number % 100 else None
        channel.basic_publish("", "stream", b"%d" % number * 300, properties(headers=headers))


def fill_delayed(channel: BlockingChannel) -> None:
    for number in range(20):
        headers = {"x-delay": HOUR_MS - 60_000 * (number % 7)}
        channel.basic_publish("", "plain", b"later %d" % number, properties(headers=headers))


def fill_deduplicated(channel: BlockingChannel) -> None:
    channel.queue_declare("once", durable=True, arguments={"x-deduplication": True})
    for number in (1, 2, 3, 2, 4, 1):
        channel.basic_publish("", "once", b"%d" % number, properties(headers={"x-deduplication-id": number}))


FILLS: tuple[Callable[[BlockingChannel], None], ...] = (
    fill_plain,
    fill_priorities,
    fill_large,
    fill_stream,
    fill_delayed,
    fill_deduplicated,
)


def wait_for_indexes(directory: Path) -> None:
    """They are written some time after the segment is full and safe."""
    deadline = time.monotonic() + 30
    (stream,) = {path.parent for path in directory.glob("queues/*/*.index")}
    for path in sorted(stream.glob("*.segment"))[:-1]:
        while not path.with_suffix(".index").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def left_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    with EmberBroker(tmp_path_factory.mktemp("documented") / "data") as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for fill in FILLS:
            fill(channel)
        wait_for_indexes(broker.data_dir)
        if request.param == "stopped":
            connection.close()
            assert broker.stop() == 0
        else:
            broker.kill()
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connection.process_data_events()
        return DataDirectory(broker.data_dir)


def test_messages_in_their_order(left_behind: DataDirectory) -> None:
    messages = left_behind.messages("plain")
    bodies = [found.body for found in messages]
    # Ten were delivered, the urgent ones before the others; every third was acked, the others given back.
    urgent = [b"urgent 1", b"urgent 2"]
    others = [b"%d" % number * (1 + number % 700) for number in range(300)]
    transient_and_others = [body for each in others for body in (each, b"not to be kept")]
    delivered = [b"urgent 0", b"urgent 1", b"urgent 2", b"urgent 3", *transient_and_others]
    acked, given_back = delivered[:10:3], delivered[1:10:3] + delivered[2:10:3]
    assert bodies == urgent + [body for body in others if body not in acked]
    assert {(found.exchange, found.routing_key) for found in messages} == {("", "plain")}
    assert [found.priority for found in messages[:3]] == [6, 7, 0]
    counted = [found.body for found in messages if found.record.returns == 1]
    assert counted == [body for body in bodies if body in given_back]
    assert all(abs(found.record.timestamp_ms / 1000 - time.time()) < 600 for found in messages)


def test_a_log_for_each_priority(left_behind: DataDirectory) -> None:
    found = left_behind.messages("priorities")
    expected = sorted(range(20), key=lambda number: -min(number % 5, 3))
    assert [int(each.body) for each in found] == expected
    queue_id = left_behind.definitions["queue", "/", "priorities"]["id"]
    assert {each.log for each in found} == {queue_id, *(f"{queue_id}.p00{level}" for level in (1, 2, 3))}


def test_segments_are_closed_at_8_mib(left_behind: DataDirectory) -> None:
    found = left_behind.messages("large")
    assert [each.body for each in found] == [bytes([number]) * 3_000_000 for number in range(9)]
    (log,) = [log for log in left_behind.logs("large") if log.exists()]
    assert [len(segment.records) for segment in segments(log)] == [3, 3, 3]


def test_a_stream_with_its_indexes_and_filters(left_behind: DataDirectory) -> None:
    found = left_behind.messages("stream")
    assert [each.body for each in found] == [b"%d" % number * 300 for number in range(400)]
    assert [each.record.sequence for each in found] == list(range(400))
    (log,) = [log for log in left_behind.logs("stream") if log.exists()]
    *full, _ = segments(log)
    assert len(full) >= 2
    for segment in full:
        segment.check_index()
        numbers = [record.sequence for record in segment.records]
        assert segment.filter_flags() == any(number % 100 == 0 for number in numbers)
        for city in {CITIES[number // 150] for number in numbers if number % 100}:
            assert segment.filter_has(city)
        assert not segment.filter_has(b"atlantis")


def test_delayed_messages(left_behind: DataDirectory) -> None:
    found = left_behind.delayed()
    assert [destination for _, _, destination, _ in found] == ["q:plain"] * 20
    expected = sorted(range(20), key=lambda number: -(number % 7))
    assert [body for _, _, _, body in found] == [b"later %d" % number for number in expected]
    assert all(0 < due_ms / 1000 - time.time() < 3600 for due_ms, _, _, _ in found)


def test_identities(left_behind: DataDirectory) -> None:
    messages = left_behind.messages("once")
    assert [each.body for each in messages] == [b"1", b"2", b"3", b"4"]
    found = [each for each in left_behind.identities("once") if any(each[0])]
    hashes = [hashlib.blake2b(each.body, digest_size=16).digest() for each in messages]
    assert found == [(hashes[at], each.record.sequence, 0) for at, each in enumerate(messages)]
