"""One publisher waits for every confirm, and nobody else is there: its messages are written and synced in
one.

What it was told must hold at every moment, and the answers of a disk that fails must be the same as ever.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pamqp import commands as spec

from embermq.store.disk import disk
from embermq.store.disk.filesystem import File
from embermq.store.log import preallocation as room
from tests.crash.client import Client, Lost
from tests.crash.machine import Machine, MachineClient
from tests.crash.test_delayed_messages import delayed_frames
from tests.support.faulty_disk import FaultyFileSystem

QUEUE = "crash.lone"
SYNCS_UNTIL_QUICK = 20


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that files are stretched, and new ones begun, in between."""
    monkeypatch.setattr(disk, "ROOM_BYTES", 900)
    monkeypatch.setattr(room, "WRITES_BEFORE_ROOM", 2)


class Counted:
    """How many writes were synced at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        write_synced = FaultyFileSystem.write_synced

        def counting(
            filesystem: FaultyFileSystem, file: File, data: bytearray, size: int, position: int
        ) -> int:
            self.count += 1
            return write_synced(filesystem, file, data, size, position)

        monkeypatch.setattr(FaultyFileSystem, "write_synced", counting)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


class Publisher:
    def __init__(self, machine: Machine) -> None:
        machine.data.committer.sync_here(machine.turn, 60.0)  # every disk is quick enough
        self.client: MachineClient = machine.client()
        self.client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
        self.client.on_confirm = self.on_confirm
        self.client.call(spec.Confirm.Select())
        self.sent = self.confirmed = 0

    def on_confirm(self, tag: int, multiple: bool) -> None:
        self.confirmed = tag

    def publish(self) -> None:
        self.sent += 1
        self.client.send_bytes(delayed_frames(QUEUE, str(self.sent).encode(), {}))

    def publish_and_wait(self, count: int) -> None:
        for _ in range(count):
            self.publish()
            while self.confirmed < self.sent:
                self.client.next()


def found_after(machine: Machine, target: Path, chance: random.Random) -> list[int]:
    machine.power_cut(str(target), chance)
    again = Machine(str(target))
    try:
        return [int(message.body) for message in again.broker.vhosts["/"].queues[QUEUE].messages()]
    finally:
        again.crash()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "disk").mkdir()
    return Machine(str(tmp_path / "disk"))


@pytest.mark.parametrize("seed", range(6))
def test_what_was_confirmed_survives_a_power_cut(
    machine: Machine, tmp_path: Path, counted: Counted, seed: int
) -> None:
    chance = random.Random(seed)
    if chance.random() < 0.5:
        machine.filesystem.write_bytes_max = 50
    publisher = Publisher(machine)
    publisher.publish_and_wait(SYNCS_UNTIL_QUICK + chance.randint(1, 60))
    assert counted.count > 0
    publisher.publish()
    machine.steps(chance.randint(0, 3))
    found = found_after(machine, tmp_path / "after", chance)
    machine.crash()
    assert found[: publisher.confirmed] == list(range(1, publisher.confirmed + 1))


def test_its_consumer_does_not_wait_for_the_disk(machine: Machine, counted: Counted) -> None:
    """What is delivered is sent before the sync; so the two are not one."""
    publisher = Publisher(machine)
    publisher.publish_and_wait(SYNCS_UNTIL_QUICK)
    consumer: Client = machine.client()
    consumer.call(spec.Basic.Consume(queue=QUEUE, no_ack=True))
    publisher.publish_and_wait(SYNCS_UNTIL_QUICK)
    before = counted.count
    publisher.publish_and_wait(10)
    assert counted.count == before
    machine.crash()


def test_a_disk_that_is_full_makes_it_wait(machine: Machine, tmp_path: Path, counted: Counted) -> None:
    publisher = Publisher(machine)
    publisher.publish_and_wait(SYNCS_UNTIL_QUICK + 10)
    assert counted.count > 0
    confirmed = publisher.confirmed
    machine.filesystem.space_left = 10
    publisher.publish()
    machine.steps(20)
    assert publisher.confirmed == confirmed
    assert machine.full == [True]
    machine.filesystem.space_left = None
    while publisher.confirmed < publisher.sent:
        publisher.client.next()
    assert machine.full == [True, False]
    assert found_after(machine, tmp_path / "after", random.Random(1)) == list(range(1, publisher.sent + 1))
    machine.crash()


def test_a_sync_that_fails_is_the_end_of_all_promises(machine: Machine, counted: Counted) -> None:
    publisher = Publisher(machine)
    publisher.publish_and_wait(SYNCS_UNTIL_QUICK + 10)
    confirmed = publisher.confirmed
    machine.filesystem.failing_syncs = True
    publisher.publish()
    with pytest.raises(Lost):
        publisher.client.next()
    assert machine.failure is not None
    assert publisher.confirmed == confirmed
    machine.crash()
