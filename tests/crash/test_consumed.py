"""Messages that were consumed before they were written: they need no disk, and their publishers do not wait.

What was confirmed is on disk or has gone to a consumer; nothing that another queue was to keep is missing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from pamqp import commands as spec

from embermq.store.data_directory import DataDirectory
from embermq.store.disk import disk
from embermq.store.log import preallocation as room
from tests.crash.client import Client, Delivery, publish_frames
from tests.crash.machine import Machine, MachineClient

CONSUMED, KEPT, FANOUT = "crash.consumed", "crash.kept", "crash.both"


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they are begun, stretched, sealed and deleted all the time."""
    monkeypatch.setattr(DataDirectory, "segment_bytes", 3_000)
    monkeypatch.setattr(disk, "ROOM_BYTES", 900)
    monkeypatch.setattr(room, "WRITES_BEFORE_ROOM", 2)


@pytest.fixture
def machine(tmp_path: Path) -> Iterable[Machine]:
    (tmp_path / "disk").mkdir()
    machine = Machine(str(tmp_path / "disk"))
    machine.data.committer.sync_here(None)  # but by a thread that can be paused
    client = machine.client()
    client.call(spec.Exchange.Declare(exchange=FANOUT, exchange_type="fanout", durable=True))
    for queue in (CONSUMED, KEPT):
        client.call(spec.Queue.Declare(queue=queue, durable=True))
        client.call(spec.Queue.Bind(queue=queue, exchange=FANOUT, routing_key=""))
    client.close()
    yield machine
    machine.crash()


class Publisher:
    def __init__(self, machine: Machine) -> None:
        self.client: MachineClient = machine.client()
        self.client.on_confirm = self.on_confirm
        self.client.call(spec.Confirm.Select())
        self.sent = self.confirmed = 0

    def on_confirm(self, tag: int, multiple: bool) -> None:
        self.confirmed = tag

    def publish(
        self, exchange: str, routing_key: str = "", number: int | None = None, padding: int = 0
    ) -> None:
        """A message with a number in its body: how many it are, if no other is given."""
        self.sent += 1
        body = b"%d " % (number or self.sent) + bytes(padding)
        self.client.send_bytes(publish_frames(exchange, routing_key, body, True, None))

    def look(self) -> int:
        """Which confirms have come?"""
        while self.client.has_answer():
            self.client.next()
        return self.confirmed

    def wait(self) -> None:
        while self.confirmed < self.sent:
            self.client.next()


class Consumer:
    def __init__(self, machine: Machine, queue: str = CONSUMED) -> None:
        self.received: list[int] = []
        self.client: MachineClient = machine.client()
        self.client.on_delivery = self.on_delivery
        self.client.call(spec.Basic.Consume(queue=queue, no_ack=True))

    def on_delivery(self, delivery: Delivery) -> None:
        self.received.append(number_in(delivery.body))

    def look(self) -> list[int]:
        while self.client.has_answer():
            self.client.next()
        return self.received


def number_in(body: bytes) -> int:
    return int(body.split(b" ", 1)[0])


def found_after(machine: Machine, target: Path, chance: random.Random) -> dict[str, list[int]]:
    machine.power_cut(str(target), chance)
    again = Machine(str(target))
    try:
        queues = again.broker.vhosts["/"].queues
        return {name: [number_in(message.body) for message in queues[name].messages()] for name in queues}
    finally:
        again.crash()


def wait_for_pause(machine: Machine) -> None:
    while not machine.paused.is_set():
        machine.step()


def segments(machine: Machine) -> list[Path]:
    return list(Path(machine.directory).glob("queues/*/*"))


def test_what_is_consumed_at_once_needs_no_disk(machine: Machine) -> None:
    publisher, consumer = Publisher(machine), Consumer(machine)
    machine.filesystem.space_left = 0
    machine.filesystem.failing_syncs = True
    syncs = machine.data.committer.syncs
    for _ in range(20):
        publisher.publish("", CONSUMED)
        publisher.wait()
    assert consumer.look() == list(range(1, 21))
    assert machine.data.committer.syncs == syncs
    assert segments(machine) == []
    assert machine.failure is None and machine.full == []


def test_the_other_queue_has_it_safe_first(machine: Machine, tmp_path: Path) -> None:
    publisher, consumer = Publisher(machine), Consumer(machine)
    publisher.publish(FANOUT)
    publisher.wait()
    machine.pause_at_next_sync()
    publisher.publish(FANOUT)
    wait_for_pause(machine)
    machine.steps(20)
    assert consumer.look() == [1, 2], "deliveries do not wait"
    assert publisher.look() == 1, "it is not on disk in the other queue"
    machine.resume()
    publisher.wait()
    found = found_after(machine, tmp_path / "after", random.Random(1))
    assert found == {CONSUMED: [], KEPT: [1, 2]}


def test_confirms_stay_in_order(machine: Machine) -> None:
    """What is consumed at once stands behind something that waits for the disk."""
    publisher, consumer = Publisher(machine), Consumer(machine)
    machine.pause_at_next_sync()
    publisher.publish("", KEPT)
    wait_for_pause(machine)
    publisher.publish("", CONSUMED)
    machine.steps(20)
    assert consumer.look() == [2]
    assert publisher.look() == 0
    machine.resume()
    publisher.wait()


def test_both_in_one_turn(machine: Machine, tmp_path: Path) -> None:
    publisher, consumer = Publisher(machine), Consumer(machine)
    machine.filesystem.space_left = 0
    publisher.publish("", CONSUMED)
    publisher.publish("", KEPT)
    machine.steps(20)
    assert consumer.look() == [1]
    assert publisher.look() == 0, "one of them is nowhere"
    machine.filesystem.space_left = None
    publisher.wait()
    assert found_after(machine, tmp_path / "after", random.Random(1))[KEPT] == [2]


def test_one_who_waits_for_the_disk_does_not_hold_up_another(machine: Machine) -> None:
    waiting, publisher, consumer = Publisher(machine), Publisher(machine), Consumer(machine)
    machine.pause_at_next_sync()
    waiting.publish("", KEPT)
    publisher.publish("", CONSUMED)
    wait_for_pause(machine)
    machine.steps(20)
    assert (publisher.look(), waiting.look()) == (1, 0)
    assert consumer.look() == [1]
    machine.resume()
    waiting.wait()


def test_a_consumer_without_room_leaves_it_to_the_disk(machine: Machine, tmp_path: Path) -> None:
    publisher, consumer = Publisher(machine), Consumer(machine)
    consumer.client.connection.pause_writing()  # the peer does not read
    publisher.publish("", CONSUMED)
    publisher.wait()
    assert consumer.look() == []
    assert found_after(machine, tmp_path / "after", random.Random(1))[CONSUMED] == [1]
    consumer.client.connection.resume_writing()
    publisher.publish("", CONSUMED)
    publisher.wait()
    assert consumer.look() == [1, 2]


def test_a_full_disk_forgets_what_is_fetched_meanwhile(machine: Machine, tmp_path: Path) -> None:
    """What the disk refused is acked before there is room again."""
    publisher = Publisher(machine)
    machine.filesystem.space_left = 0
    publisher.publish("", CONSUMED)
    machine.steps(5)
    assert publisher.look() == 0
    client: Client = machine.client()
    got = client.call_get(CONSUMED)
    assert got is not None
    client.send(spec.Basic.Ack(got.tag))
    client.call(spec.Basic.Qos(prefetch_count=1))
    machine.filesystem.space_left = None
    publisher.wait()
    assert found_after(machine, tmp_path / "after", random.Random(1))[CONSUMED] == []


def test_a_transaction_that_was_consumed(machine: Machine, tmp_path: Path) -> None:
    consumer = Consumer(machine)
    client: Client = machine.client()
    client.call(spec.Tx.Select())
    client.send_bytes(publish_frames(FANOUT, "", b"1 ", True, None))
    client.call(spec.Tx.Commit())
    assert consumer.look() == [1]
    assert found_after(machine, tmp_path / "after", random.Random(1)) == {CONSUMED: [], KEPT: [1]}


@pytest.mark.parametrize("seed", range(12))
def test_what_was_confirmed_is_on_disk_or_with_the_consumer(
    machine: Machine, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    if chance.random() < 0.3:
        machine.filesystem.write_bytes_max = 50
    publishers = [Publisher(machine) for _ in range(chance.randint(1, 2))]
    consumer = Consumer(machine)
    expected: dict[str, set[int]] = {CONSUMED: set(), KEPT: set()}
    sent: list[tuple[Publisher, int, tuple[str, ...], int]] = []
    for _ in range(chance.randint(10, 120)):
        action = chance.random()
        if action < 0.6:
            publisher = chance.choice(publishers)
            exchange, key, queues = chance.choice(
                [("", CONSUMED, (CONSUMED,)), ("", KEPT, (KEPT,)), (FANOUT, "", (CONSUMED, KEPT))]
            )
            number = len(sent) + 1
            publisher.publish(exchange, key, number, chance.choice([0, 10, 200, 1000]))
            sent.append((publisher, publisher.sent, queues, number))
        elif action < 0.7:
            if consumer.client.connection.writable:
                consumer.client.connection.pause_writing()
            else:
                consumer.client.connection.resume_writing()
        elif action < 0.85:
            machine.steps(chance.randint(1, 4))
        else:
            chance.choice(publishers).wait()
    machine.steps(chance.randint(0, 3))
    for publisher in publishers:
        publisher.look()
    for publisher, tag, queues, number in sent:
        if tag <= publisher.confirmed:
            for queue in queues:
                expected[queue].add(number)
    received = consumer.look()
    found = found_after(machine, tmp_path / "after", chance)
    assert sorted(found[CONSUMED]) == found[CONSUMED] and sorted(received) == received
    assert expected[KEPT] <= set(found[KEPT])
    assert expected[CONSUMED] <= {*found[CONSUMED], *received}
