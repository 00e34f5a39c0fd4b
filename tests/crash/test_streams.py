"""Streams and leases when the power fails: an offset keeps its meaning, a lease is whole or not there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pamqp import commands as spec

from embermq.broker.lease.lease import OPEN, SETTLED
from embermq.broker.message.message import Message
from embermq.broker.message.record import message_of
from embermq.broker.stream import arguments as stream_arguments
from embermq.broker.stream.stream import Stream
from embermq.broker.stream.super_stream import create, delete, partitions
from embermq.store.data_directory import DataDirectory
from embermq.store.log.record import Record
from tests.crash.client import HEADER, publish_frames
from tests.crash.machine import Machine, MachineClient
from tests.support.pika_streams import unpacked

STREAM, QUEUE, SUPER = "crash.stream", "crash.leased", "crash.super"
LIVES = 4
FIELD = b"\x0fx-stream-offsetl"


class StreamClient(MachineClient):
    """Knows the offset of the content read last."""

    offset = -1

    def frame(self) -> tuple[int, bytes]:
        kind, payload = super().frame()
        if kind == HEADER:
            at = payload.index(FIELD) + len(FIELD)
            self.offset = int.from_bytes(payload[at : at + 8], "big")
        return kind, payload


class StreamHistory:
    """What was confirmed and what was seen, over several lives of one stream."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.seen: dict[int, bytes] = {}  # by offset
        self.confirmed: set[bytes] = set()
        self.published = 0
        self.kept_from = 0  # retention had let go of what is before
        (directory / "disk-0").mkdir()
        self.machine = Machine(str(directory / "disk-0"))
        client = self.machine.client()
        arguments = {"x-queue-type": "stream", "x-max-length-bytes": 12_000}
        client.call(spec.Queue.Declare(queue=STREAM, durable=True, arguments=arguments))
        client.close()

    def live(self) -> None:
        machine, chance = self.machine, self.chance
        machine.filesystem.write_bytes_max = chance.choice([None, None, 100])
        machine.filesystem.cold = chance.random() < 0.5
        writer, reader = machine.client(), StreamClient(machine, 1000)
        waiting: dict[int, bytes] = {}

        def on_confirm(tag: int, multiple: bool) -> None:
            for known in [known for known in waiting if known == tag or (multiple and known < tag)]:
                self.confirmed.add(waiting.pop(known))

        writer.on_confirm = on_confirm
        writer.call(spec.Confirm.Select())
        reader.call(spec.Basic.Qos(prefetch_count=60_000))
        reader.call(spec.Basic.Consume(queue=STREAM, arguments={"x-stream-offset": "first"}))
        tag = 0
        for _ in range(chance.randint(1, 80)):
            if chance.random() < 0.03:
                machine.filesystem.space_left = chance.randint(0, 3000)
            elif chance.random() < 0.1:
                self.make_space()
            persistent = chance.random() < 0.5
            burst = b""
            for _ in range(chance.choice([1, 1, 2, 9])):  # what is alike goes into the log straight
                body = b"%d " % self.published * chance.randint(1, 60)
                self.published += 1
                tag += 1
                waiting[tag] = body
                burst += publish_frames("", STREAM, body, persistent, chance.choice([None, None, None, 3]))
            writer.send_bytes(burst)
            machine.steps(chance.randint(0, 3))
            self.look(reader)
            while writer.has_answer():
                writer.next()
        if chance.random() < 0.5 or not self.seen:
            self.make_space()
            while waiting:
                writer.next()
            machine.steps(3)
            self.look(reader)
            while not self.seen:
                machine.step()
                self.look(reader)

    def make_space(self) -> None:
        """The disk was full, perhaps; what it refused is tried again, as after a second."""
        self.machine.filesystem.space_left = None
        if self.machine.storage.unwritten:
            self.machine.storage.retry()

    def look(self, reader: StreamClient) -> None:
        while reader.has_answer():
            delivery = reader.next()
            before = self.seen.setdefault(reader.offset, delivery.body)
            assert before == delivery.body, f"offset {reader.offset} means another message"

    def cut(self, number: int) -> None:
        target = self.directory / f"disk-{number}"
        self.kept_from = self.stream.first_offset
        self.machine.power_cut(str(target), self.chance)
        self.machine.crash()
        self.machine = Machine(str(target))

    @property
    def stream(self) -> Stream:
        stream = self.machine.broker.vhosts["/"].queues[STREAM]
        assert isinstance(stream, Stream)
        return stream

    def check(self) -> None:
        """Of what retention had let go of, some files may be back; others may not."""
        stream = self.stream
        blocks = self.in_blocks(
            0, stream.safe_end
        )  # first of all: retention goes on as soon as anything does
        first = max(self.kept_from, stream.first_offset)
        found = {record.sequence: message.body for record, message in records(stream)}
        assert blocks == list(found.items())
        assert stream.safe_end > max(self.seen, default=-1), "an offset would be used twice"
        for offset, body in self.seen.items():
            assert offset < first or found[offset] == body
        lost = self.confirmed - set(found.values()) - set(self.seen.values())
        assert not lost or first > 0, f"confirmed and lost: {sorted(lost)[:5]}"

    def in_blocks(self, begin: int, end: int) -> list[tuple[int, bytes]]:
        """What one gets who reads that range in blocks."""
        client = self.machine.client()
        rows: list[tuple[int, bytes]] = []
        client.on_delivery = lambda delivery: rows.extend(unpacked(delivery.body))
        arguments = {"x-stream-offset": begin, "x-stream-end-offset": end, "x-stream-blocks": True}
        client.call(spec.Basic.Consume(queue=STREAM, no_ack=True, arguments=arguments, consumer_tag="b"))
        while end > begin and (not rows or rows[-1][0] < end - 1):
            client.next()
        client.close()
        return rows


def records(stream: Stream) -> list[tuple[Record, Message]]:
    reader = stream.log.new_reader()
    sequence = 0
    found: list[tuple[Record, Message]] = []
    while batch := reader.read(sequence, 65536):
        found += [(record, message_of(record.payload, record.flags)) for record in batch]
        sequence = batch[-1].sequence + 1
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cut" in metafunc.fixturenames:
        metafunc.parametrize("cut", range(max(8, metafunc.config.getoption("--cycles") // 3)))


def test_offsets_keep_their_meaning(tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_arguments, "SEGMENT_BYTES_DEFAULT", 2000)
    monkeypatch.setattr(stream_arguments, "SEGMENT_BYTES_MIN", 2000)
    history = StreamHistory(tmp_path, cut)
    try:
        for life in range(1, LIVES + 1):
            history.live()
            history.cut(life)
            history.check()
        assert history.seen, "nothing was ever read: this history has proven nothing"
    finally:
        history.machine.crash()


@pytest.mark.parametrize("seed", range(12))
def test_a_super_stream_is_whole_or_not_there(tmp_path: Path, seed: int) -> None:
    """One with some of its partitions could neither be used nor be made again."""
    chance = random.Random(seed)
    (tmp_path / "disk").mkdir()
    machine = Machine(str(tmp_path / "disk"))
    deleting = seed % 2 == 1
    count = chance.randint(2, 9)
    if deleting:
        create(machine.broker.vhosts["/"], SUPER, None, count, {})
        machine.data.definitions.all("exchange")  # waits until it is safe
    machine.pause_at_next_sync()
    exchange = machine.broker.vhosts["/"].exchanges.get(SUPER)
    if exchange is None:
        create(machine.broker.vhosts["/"], SUPER, None, count, {})
    else:
        delete(exchange)
    assert machine.paused.wait(60)
    machine.power_cut(str(tmp_path / "after"), chance)
    machine.crash()

    again = Machine(str(tmp_path / "after"))
    vhost = again.broker.vhosts["/"]
    found = vhost.exchanges.get(SUPER)
    assert found is None or len(partitions(found)) == count
    streams = [name for name in vhost.queues if name.startswith(SUPER)]
    assert len(streams) == (0 if found is None else count)
    create(vhost, SUPER, None, count, {})
    again.crash()


@pytest.mark.parametrize("seed", range(16))
def test_a_lease_is_whole_or_not_there(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataDirectory, "segment_bytes", 900)
    chance = random.Random(seed)
    (tmp_path / "disk").mkdir()
    machine = Machine(str(tmp_path / "disk"))
    client = machine.client()
    client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
    confirmed: list[int] = []
    client.on_confirm = lambda tag, multiple: confirmed.append(tag)
    client.call(spec.Confirm.Select())
    count = chance.randint(2, 60)
    for number in range(count):
        client.send_bytes(publish_frames("", QUEUE, b"%d" % number, True, None))
    while max(confirmed, default=0) < count:
        client.next()

    vhost = machine.broker.vhosts["/"]
    lease = vhost.leases.begin(vhost.queues[QUEUE], "batch", 0)
    lease.take(chance.randint(1, count), 1 << 30)
    vhost.leases.keep(lease)
    taken = lease.count
    safe: list[str] = []
    vhost.definitions.when_safe(lambda: safe.append("made"))
    patience = chance.choice([0, 1, 5, 400])
    for _ in range(patience):
        machine.step()
        if patience == 400 and safe:
            break
    settles = chance.random() < 0.7
    if settles:
        vhost.leases.settle(lease)
        vhost.definitions.when_safe(lambda: safe.append("settled"))
        machine.steps(chance.choice([0, 1, 3, 10, 300]))
    machine.power_cut(str(tmp_path / "after"), chance)
    promised = list(safe)
    machine.crash()

    again = Machine(str(tmp_path / "after"))
    vhost = again.broker.vhosts["/"]
    queue = vhost.queues[QUEUE]
    ready = [int(message.body) for message in queue.messages()]
    found = vhost.leases.of.get(queue, {}).get("batch")
    if found is None:
        assert not promised
        assert ready == list(range(count))
    else:
        assert ready == list(range(taken, count))
        assert found.state in ((SETTLED, OPEN) if settles else (OPEN,))
        if "settled" in promised:
            assert found.state == SETTLED
        if found.state == OPEN:
            assert queue.unacked_count == taken
            released: list[bool] = []
            vhost.leases.release(found, done=lambda: released.append(True))
            while not released:
                again.step()
            assert [int(message.body) for message in queue.messages()] == list(range(count))
        else:
            again.steps(3)
            assert queue.unacked_count == 0
    assert queue.ready_count == len(list(queue.messages()))
    again.crash()
