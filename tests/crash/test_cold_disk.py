"""Queues and streams whose files are not in memory: who reads them waits for the disk, others do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands as spec

from embermq.broker.stream.arguments import SEGMENT_BYTES_MIN
from tests.crash.client import publish_frames
from tests.crash.machine import Machine, MachineClient
from tools.brokers import EmberBroker

COUNT = 600
BODY_BYTES = 1000
QUEUE, OTHER = "crash.cold", "crash.warm"


class Cold:
    """A machine that was started again, with a queue of which nothing is in memory."""

    def __init__(self, directory: Path, arguments: dict[str, Any] | None = None, kinds: int = 1) -> None:
        directory.mkdir()
        self.directory = str(directory)
        self.arguments = arguments or {}
        machine = self.start()
        client = machine.client()
        client.call(spec.Queue.Declare(queue=QUEUE, durable=True, arguments=self.arguments))
        client.call(spec.Queue.Declare(queue=OTHER, durable=True))
        client.call(spec.Tx.Select())
        for number in range(COUNT):
            client.send_bytes(
                publish_frames("", QUEUE, self.body(number), persistent=True, priority=number % kinds)
            )
        client.call(spec.Tx.Commit())
        client.close()
        machine.steps(3)
        machine.crash()
        self.machine = self.start()
        self.filesystem = self.machine.filesystem
        self.filesystem.cold = True

    def start(self) -> Machine:
        machine = Machine(self.directory)
        machine.data.segment_bytes = 50_000
        for queue in machine.broker.vhosts["/"].queues.values():
            for level in queue.levels:
                if level.log is not None:
                    level.log.segment_bytes = 50_000
        return machine

    @staticmethod
    def body(number: int) -> bytes:
        return b"%06d" % number + b"x" * BODY_BYTES

    def consumer(self, queue: str = QUEUE, **arguments: Any) -> MachineClient:
        client = self.machine.client()
        client.call(spec.Basic.Qos(prefetch_count=10_000))
        client.call(spec.Basic.Consume(queue=queue, arguments=arguments))
        return client

    def numbers(self, client: MachineClient, count: int = COUNT) -> list[int]:
        return [int(client.wait(object).body[:6]) for _ in range(count)]


@pytest.fixture
def cold(tmp_path: Path) -> Cold:
    return Cold(tmp_path / "disk")


def test_everything_comes_in_its_order(cold: Cold) -> None:
    assert cold.numbers(cold.consumer()) == list(range(COUNT))
    assert cold.filesystem.fetches >= 10
    cold.machine.crash()


def test_others_do_not_wait(cold: Cold) -> None:
    """The thread that fetches is held up by a slow disk; meanwhile there is life."""
    held = cold.machine.data.disk.cache
    held._work.put(cold.machine.resumed.wait)
    reading = cold.consumer()
    writer, warm = cold.machine.client(), cold.consumer(OTHER)
    for number in range(20):
        writer.send_bytes(publish_frames("", OTHER, b"%06d" % number, persistent=True, priority=None))
    assert cold.numbers(warm, 20) == list(range(20))
    assert not reading.has_answer()
    cold.machine.resume()
    assert cold.numbers(reading) == list(range(COUNT))
    cold.machine.crash()


@pytest.mark.parametrize("rule", ["x-max-priority", "x-single-active-consumer"])
def test_who_gets_which_message_stays_as_it_is(tmp_path: Path, rule: str) -> None:
    by_priority = rule == "x-max-priority"
    cold = Cold(tmp_path / "disk", {rule: 3 if by_priority else True}, kinds=3)
    expected = list(range(COUNT))
    if by_priority:
        expected.sort(key=lambda number: -(number % 3))
    assert cold.numbers(cold.consumer()) == expected
    assert cold.filesystem.fetches >= 10
    cold.machine.crash()


def test_an_urgent_message_in_memory_waits_for_no_others_on_the_disk(tmp_path: Path) -> None:
    cold = Cold(tmp_path / "disk", {"x-max-priority": 3}, kinds=3)
    cold.machine.data.disk.cache._work.put(cold.machine.resumed.wait)
    reading, client = cold.consumer(), cold.machine.client()
    client.send_bytes(publish_frames("", QUEUE, b"%06d" % COUNT, persistent=True, priority=3))
    assert cold.numbers(reading, 1) == [COUNT]
    assert not reading.has_answer()
    cold.machine.resume()
    assert sorted(cold.numbers(reading)) == list(range(COUNT))
    cold.machine.crash()


def test_urgent_messages_on_the_disk_are_not_overtaken_by_others_in_memory(tmp_path: Path) -> None:
    cold = Cold(tmp_path / "disk", kinds=10)
    client = cold.machine.client()
    assert client.call_get(QUEUE) is not None
    urgent = [number for number in range(COUNT) if number % 10 >= 5][1:]
    others = [number for number in range(COUNT) if number % 10 < 5]
    cold.machine.broker.vhosts["/"].queues[QUEUE].low.front()  # these are in memory now
    assert cold.numbers(cold.consumer(), COUNT - 1) == urgent + others
    cold.machine.crash()


def test_getting_messages_by_hand_waits_for_them(cold: Cold) -> None:
    client = cold.machine.client()
    got = [client.call_get(QUEUE) for _ in range(COUNT)]
    assert [int(delivery.body[:6]) for delivery in got if delivery is not None] == list(range(COUNT))
    assert client.call_get(QUEUE) is None
    assert cold.filesystem.fetches >= 10
    cold.machine.crash()


def test_messages_that_expire_on_the_disk(tmp_path: Path) -> None:
    cold = Cold(tmp_path / "disk", {"x-message-ttl": 10**6})
    cold.machine.ahead_s = 2000
    cold.machine.turn.refresh()
    client = cold.machine.client()
    client.send_bytes(publish_frames("", QUEUE, cold.body(COUNT), persistent=True, priority=None))
    assert cold.numbers(cold.consumer(), 1) == [COUNT]
    assert cold.filesystem.fetches >= 10
    cold.machine.crash()


@pytest.mark.parametrize("action", ["purge", "delete", "leave"])
def test_a_queue_may_change_while_its_messages_are_on_their_way(cold: Cold, action: str) -> None:
    cold.machine.data.disk.cache._work.put(cold.machine.resumed.wait)
    reading = cold.consumer()
    client = cold.machine.client()
    if action == "purge":
        assert client.call(spec.Queue.Purge(queue=QUEUE)).message_count == COUNT
    elif action == "delete":
        assert client.call(spec.Queue.Delete(queue=QUEUE)).message_count == COUNT
        client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
        reading = cold.consumer()
    else:
        reading.close()
    cold.machine.resume()
    cold.machine.data.disk.cache.wait()
    cold.machine.steps(5)
    client.send_bytes(publish_frames("", QUEUE, b"%06d" % COUNT, persistent=True, priority=None))
    if action == "leave":
        assert cold.numbers(cold.consumer(), COUNT + 1) == list(range(COUNT + 1))
    else:
        assert cold.numbers(reading, 1) == [COUNT]
    cold.machine.crash()


@pytest.mark.parametrize("begin", ["first", COUNT // 2])
def test_a_stream_is_read_from_anywhere(tmp_path: Path, begin: str | int) -> None:
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": SEGMENT_BYTES_MIN}
    cold = Cold(tmp_path / "disk", arguments)
    first = 0 if begin == "first" else COUNT // 2
    readers = [cold.consumer(**{"x-stream-offset": begin}) for _ in range(3)]
    for reader in readers:
        assert cold.numbers(reader, COUNT - first) == list(range(first, COUNT))
    assert cold.filesystem.fetches >= 1
    cold.machine.crash()


def test_a_broker_whose_files_have_left_memory(tmp_path: Path) -> None:
    """The real thing: a process, its sockets, and segments that the kernel was told to forget."""
    pika = pytest.importorskip("pika")
    count, body = 30_000, b"x" * 1000
    with EmberBroker(tmp_path / "data") as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("cold", durable=True)
            channel.tx_select()
            for number in range(count):
                properties = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", "cold", b"%06d" % number + body, properties)
            channel.tx_commit()
        broker.restart()
        for path in (tmp_path / "data").rglob("*.segment"):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1000)
            seen = []
            for method, _, got in channel.consume("cold", inactivity_timeout=60):
                assert method is not None, f"nothing came behind {len(seen)} messages"
                seen.append(int(got[:6]))
                channel.basic_ack(method.delivery_tag)
                if len(seen) == count:
                    break
            assert seen == list(range(count))
