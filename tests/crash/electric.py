"""Lives of a broker that end with a power cut: one thread, many clients, a disk that keeps only what it must.

A life is a random sequence of things that clients do. Acks need a word more than with a kill: they are on
disk when a transaction that came later has been answered; until then a power cut may bring the messages back.

Recovery may report damage here: when the end of a segment was lost and the beginning of the next one was not,
nobody can tell this from damage, so the file is set aside. It must not have cost anything that was promised.
"""

from __future__ import annotations

import random
from pathlib import Path

from pamqp import commands as spec

from tests.crash.client import ChannelClosed, Delivery, Lost, publish_frames
from tests.crash.machine import Machine, MachineClient
from tests.crash.model import SAFE, Model, Text

FANOUT = "electric.fanout"
KEPT = ("electric.a", "electric.b", "electric.c")  # bound to the fanout, always there
VOLATILE = "electric.volatile"
QUEUES = (*KEPT, VOLATILE)


class ElectricHistory:
    """One data directory through several lives, each on what the last power cut left."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.directory = directory
        self.cuts = 0
        self.disk = directory / "disk-0"
        self.disk.mkdir()
        self.model = Model()
        self.model.define("queue", VOLATILE, there=False)
        for queue in KEPT:
            self.model.define("queue", queue, there=False)
        self.machine = Machine(str(self.disk))
        self.define()

    def define(self) -> None:
        client = self.machine.client()
        client.call(spec.Exchange.Declare(exchange=FANOUT, exchange_type="fanout", durable=True))
        for queue in KEPT:
            client.call(spec.Queue.Declare(queue=queue, durable=True))
            client.call(spec.Queue.Bind(queue=queue, exchange=FANOUT, routing_key=""))
            self.model.define("queue", queue, there=True)
        client.close()

    # -- one life

    def live(self, number: int, actions: int) -> None:
        """Things happen until the power fails, at the latest after so many of them."""
        machine, chance = self.machine, self.chance
        machine.filesystem.write_bytes_max = chance.choice([None, None, 100, 7])
        self.name = f"life{number}"
        self.number = 0
        self.waiting: dict[int, tuple[Text, tuple[str, ...]]] = {}
        self.tag = 0
        self.leaving: list[tuple[str, list[str]]] = []  # acks that no later transaction has made safe yet
        self.publisher = machine.client()
        self.publisher.on_confirm = self.on_confirm
        self.publisher.call(spec.Confirm.Select())
        self.transactor = machine.client()
        self.transactor.call(spec.Tx.Select())
        self.taker = machine.client()
        self.doing = [
            self.publish,
            self.publish,
            self.publish,
            self.wait_confirms,
            self.transact,
            self.transact,
            self.take,
            self.take,
            self.purge,
            self.change_volatile,
            self.wander,
        ]
        if chance.random() < 0.6:
            self.doing.append(machine.pause_at_next_sync)
        try:
            for _ in range(actions):
                chance.choice(self.doing)()
        except Lost:
            assert machine.paused.is_set(), machine.failure

    def on_confirm(self, tag: int, multiple: bool) -> None:
        for known in [known for known in self.waiting if known <= tag] if multiple else [tag]:
            text, queues = self.waiting.pop(known)
            self.model.published([text], queues)

    def text(self) -> Text:
        self.number += 1
        return Text(
            self.name, self.number, self.chance.random() < 0.85, self.chance.choice([None, None, 4, 5, 9])
        )

    def some_frames(self, count: int) -> tuple[list[tuple[Text, tuple[str, ...]]], bytes]:
        sent, data = [], []
        for _ in range(count):
            text = self.text()
            if self.chance.random() < 0.4:
                exchange, routing_key, queues = FANOUT, "", KEPT
            else:
                there = self.model.definitions["queue", VOLATILE]
                routing_key = self.chance.choice(QUEUES if there else KEPT)
                exchange, queues = "", (routing_key,)
            sent.append((text, queues))
            body = text.body(self.chance.choice([0, 50, 50, 400]))
            data.append(publish_frames(exchange, routing_key, body, text.persistent, text.priority))
        return sent, b"".join(data)

    def publish(self) -> None:
        sent, data = self.some_frames(self.chance.randint(1, 25))
        for text, queues in sent:
            self.tag += 1
            self.model.publishing([text], queues)
            self.waiting[self.tag] = text, queues
        self.publisher.send_bytes(data)
        self.machine.steps(self.chance.choice([0, 0, 1, 5]))
        self.read_confirms()

    def read_confirms(self) -> None:
        while self.publisher.has_answer():
            self.publisher.next()

    def wait_confirms(self) -> None:
        while self.waiting:
            self.publisher.next()

    def wander(self) -> None:
        self.machine.steps(self.chance.randint(1, 10))
        self.read_confirms()

    def get_some(self, client: MachineClient, queue: str) -> list[tuple[str, int]]:
        taken = []
        for _ in range(self.chance.randint(0, 15)):
            got = client.call_get(queue)
            if got is None:
                break
            taken.append((self.model.delivered(queue, got), got.tag))
        return taken

    def transact(self) -> None:
        sent, data = self.some_frames(self.chance.randint(0, 10))
        client = self.transactor
        client.send_bytes(data)
        queue = self.chance.choice(KEPT)
        taken = self.get_some(client, queue)
        if taken:
            client.send(spec.Basic.Ack(taken[-1][1], True))
        for text, queues in sent:
            self.model.publishing([text], queues)
        keys = [key for key, _ in taken]
        self.model.leaving(queue, keys)
        before = list(self.leaving)
        client.call(spec.Tx.Commit())
        for text, queues in sent:
            self.model.published([text], queues)
        # The sync that the commit waited for has taken along whatever was acknowledged before.
        for other, others in [*before, (queue, keys)]:
            self.model.gone(other, others)
        self.leaving = []

    def take(self) -> None:
        queue = self.chance.choice(KEPT)
        taken = self.get_some(self.taker, queue)
        if not taken:
            return
        if self.chance.random() < 0.3:
            self.taker.send(spec.Basic.Nack(taken[-1][1], True, True))
            return
        keys = [key for key, _ in taken]
        self.model.leaving(queue, keys)
        self.leaving.append((queue, keys))
        self.taker.send(spec.Basic.Ack(taken[-1][1], True))

    def purge(self) -> None:
        if self.chance.random() < 0.5:
            return
        queue = self.chance.choice(KEPT)
        keys = self.model.keys(queue)
        self.model.leaving(queue, keys)
        self.taker.call(spec.Queue.Purge(queue=queue))
        self.leaving.append((queue, keys))

    def change_volatile(self) -> None:
        if not self.model.definitions["queue", VOLATILE]:
            self.model.define("queue", VOLATILE, there=None)
            self.taker.call(spec.Queue.Declare(queue=VOLATILE, durable=True))
            self.model.define("queue", VOLATILE, there=True)
            return
        self.wait_confirms()
        keys = self.model.keys(VOLATILE)
        self.model.leaving(VOLATILE, keys)
        self.model.define("queue", VOLATILE, there=None)
        self.taker.call(spec.Queue.Delete(queue=VOLATILE))
        self.model.define("queue", VOLATILE, there=False)
        self.model.gone(VOLATILE, keys)

    # -- the cut, and the look at what it left

    def cut(self) -> None:
        """The power fails. Begin again from what the disk has."""
        self.cuts += 1
        self.disk = self.directory / f"disk-{self.cuts}"
        self.machine.power_cut(str(self.disk), self.chance)
        self.model = self.model.snapshot()
        self.machine.crash()
        self.machine = Machine(str(self.disk))
        self.compare()

    def compare(self) -> None:
        for queue in QUEUES:
            self.model.check_definition(("queue", queue), self.exists(queue))
            if self.model.definitions["queue", queue]:
                self.model.check_queue(queue, self.content_of(queue))
            else:
                self.model.queues.pop(queue, None)
        failures = "\n  ".join(self.model.failures[:12])
        assert not failures, f"cut {self.cuts} of seed {self.seed}, {self.disk}:\n  {failures}"

    def exists(self, queue: str) -> bool:
        client = self.machine.client()
        try:
            client.call(spec.Queue.Declare(queue=queue, passive=True))
            return True
        except ChannelClosed:
            return False
        finally:
            client.close()

    def content_of(self, queue: str) -> list[Delivery]:
        client = self.machine.client()
        count = client.call(spec.Queue.Declare(queue=queue, passive=True)).message_count
        found: list[Delivery] = []
        client.on_delivery = found.append
        client.call(spec.Basic.Consume(queue=queue))
        while len(found) < count:
            client.next()
        client.call(spec.Basic.Qos(prefetch_count=0))
        client.close()
        return found

    def safe_count(self) -> int:
        return sum(copy.state == SAFE for copies in self.model.queues.values() for copy in copies.values())

    def close(self) -> None:
        self.machine.crash()
