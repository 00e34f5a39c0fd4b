"""A publisher repeats what was not confirmed, with the same identities, across power cuts: each arrives once.

Some messages are consumed in between, in transactions, so that their acks are as safe as the messages; one
that was taken and committed must not come back, neither as itself nor as a duplicate.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from pamqp import commands as spec

from embermq.store.data_directory import DataDirectory
from tests.crash.client import BODY, DELIVERY_MODE, HEADER, METHOD, PRIORITY, Lost, wire_frame
from tests.crash.machine import Machine, MachineClient

HEADERS = 0x2000
LIVES = 6
ACTIONS_MAX = 30
OWN, URGENT, FAN = "own", "urgent", "fan"
TARGETS = {OWN: (OWN,), URGENT: (URGENT,), FAN: ("fan.a", "fan.b")}  # the queues of each
QUEUES = [queue for queues in TARGETS.values() for queue in queues]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--crash-seed")
        histories = max(1, metafunc.config.getoption("--cycles") // 3)
        metafunc.parametrize("seed", range(1, histories + 1) if only is None else [only])


@pytest.fixture(autouse=True)
def _segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, so that they are begun, sealed and deleted all the time."""
    monkeypatch.setattr(DataDirectory, "segment_bytes", 600)


def frames_with_identity(target: str, identity: int, priority: int, in_series: bool) -> bytes:
    body = b"%d" % identity
    id = b"series:batch/%d/%d" % (identity % 2, identity // 2) if in_series else body
    field = b"\x12x-deduplication-idS" + struct.pack(">I", len(id)) + id
    values = struct.pack(">I", len(field)) + field + bytes([2, priority])
    exchange, key = (FAN, "") if target == FAN else ("", target)
    names = b"".join(bytes([len(name)]) + name.encode() for name in (exchange, key))
    flags = HEADERS | DELIVERY_MODE | PRIORITY
    return (
        wire_frame(METHOD, b"\x00\x3c\x00\x28\x00\x00" + names + b"\x00")
        + wire_frame(HEADER, struct.pack(">HHQH", 60, 0, len(body), flags) + values)
        + wire_frame(BODY, body)
    )


DEDUPLICATED = {"x-deduplication": True}


class Repetition:
    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.in_series = bool(seed % 2)
        self.directory = directory
        self.cuts = 0
        (directory / "disk-0").mkdir()
        self.machine = Machine(str(directory / "disk-0"))
        self.published: dict[tuple[str, int], bool] = {}  # target and identity: whether it was confirmed
        self.taken: dict[str, set[bytes]] = {queue: set() for queue in QUEUES}  # and committed
        self.doubtful: dict[str, set[bytes]] = {queue: set() for queue in QUEUES}  # no answer came
        client = self.machine.client()
        urgent = {**DEDUPLICATED, "x-max-priority": 3}
        client.call(spec.Queue.Declare(queue=OWN, durable=True, arguments=DEDUPLICATED))
        client.call(spec.Queue.Declare(queue=URGENT, durable=True, arguments=urgent))
        client.call(
            spec.Exchange.Declare(exchange=FAN, exchange_type="fanout", durable=True, arguments=DEDUPLICATED)
        )
        for queue in TARGETS[FAN]:
            client.call(spec.Queue.Declare(queue=queue, durable=True))
            client.call(spec.Queue.Bind(queue=queue, exchange=FAN, routing_key=""))
        client.close()

    def run(self) -> None:
        for _ in range(LIVES):
            self.live()
            self.cut()
        self.connect()
        for target, identity in self.unconfirmed():
            self.send(target, identity)
        self.wait_confirms()
        self.compare()

    def connect(self) -> None:
        self.waiting: dict[int, tuple[str, int]] = {}
        self.tag = 0
        self.publisher = self.machine.client()
        self.publisher.on_confirm = self.on_confirm
        self.publisher.call(spec.Confirm.Select())
        self.taker = self.machine.client()
        self.taker.call(spec.Tx.Select())

    def live(self) -> None:
        self.connect()
        doing = [self.publish_new] * 4 + [self.repeat] * 3 + [self.wait_confirms] * 2 + [self.take] * 4
        if self.chance.random() < 0.7:
            doing += [self.machine.pause_at_next_sync] * 2
        try:
            for _ in range(self.chance.randint(1, ACTIONS_MAX)):
                self.chance.choice(doing)()
        except Lost:
            assert self.machine.paused.is_set(), self.machine.failure

    def cut(self) -> None:
        self.cuts += 1
        disk = str(self.directory / f"disk-{self.cuts}")
        self.machine.power_cut(disk, self.chance)
        self.machine.crash()
        self.machine = Machine(disk)

    # -- what happens

    def unconfirmed(self) -> list[tuple[str, int]]:
        return [published for published, confirmed in self.published.items() if not confirmed]

    def publish_new(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            target, identity = self.chance.choice(list(TARGETS)), len(self.published)
            self.published[target, identity] = False
            self.send(target, identity)

    def repeat(self) -> None:
        """What was not confirmed, and something that was."""
        for target, identity in self.unconfirmed():
            if self.chance.random() < 0.5:
                self.send(target, identity)
        if self.published:
            self.send(*self.chance.choice(list(self.published)))

    def send(self, target: str, identity: int) -> None:
        self.tag += 1
        self.waiting[self.tag] = (target, identity)
        frames = frames_with_identity(target, identity, identity % 4, self.in_series)
        self.publisher.send_bytes(frames)
        self.machine.steps(self.chance.randint(0, 2))

    def on_confirm(self, tag: int, multiple: bool) -> None:
        for known in [known for known in self.waiting if known <= tag] if multiple else [tag]:
            self.published[self.waiting.pop(known)] = True

    def wait_confirms(self) -> None:
        while self.waiting:
            self.publisher.next()

    def take(self) -> None:
        queue = self.chance.choice(QUEUES)
        got = []
        for _ in range(self.chance.randint(1, 6)):
            delivery = self.taker.call_get(queue)
            if delivery is None:
                break
            got.append(delivery.body)
            self.taker.send(spec.Basic.Ack(delivery.tag))
        seen = [body for body in got if body in self.taken[queue]]
        assert not seen, f"{seen} in {queue} were consumed before"
        assert len(set(got)) == len(got), f"{got} in {queue}"
        # Until the answer comes, nobody knows; a message whose fate is unknown may have been consumed.
        self.doubtful[queue] |= set(got)
        self.taker.call(spec.Tx.Commit())
        self.taken[queue] |= set(got)
        self.doubtful[queue] -= set(got)

    # -- the end

    def compare(self) -> None:
        client = self.machine.client()
        for target, queues in TARGETS.items():
            expected = {b"%d" % identity for known, identity in self.published if known == target}
            for queue in queues:
                found = self.drained(client, queue)
                assert len(set(found)) == len(found), f"twice in {queue}: {found}"
                assert not set(found) & self.taken[queue], f"consumed and there again in {queue}"
                missing = expected - set(found) - self.taken[queue] - self.doubtful[queue]
                assert not missing, f"never came to {queue}: {missing}"
                assert set(found) <= expected
        assert self.published

    def drained(self, client: MachineClient, queue: str) -> list[bytes]:
        found = []
        while (delivery := client.call_get(queue)) is not None:
            found.append(delivery.body)
        return found

    def close(self) -> None:
        self.machine.crash()


def test_each_identity_once(tmp_path: Path, seed: int) -> None:
    repetition = Repetition(tmp_path, seed)
    try:
        repetition.run()
    finally:
        repetition.close()
