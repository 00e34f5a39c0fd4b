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

from tests.crash.client import ChannelClosed, Delivery, Lost, look_at, publish_frames
from tests.crash.machine import Machine, MachineClient
from tests.crash.model import SAFE, Kind, Model, Text

FANOUT = "electric.fanout"
KEPT = ("electric.a", "electric.b", "electric.c")  # bound to the fanout, always there
LETTERS = "electric.letters"
LIVES = 6
ACTIONS_MAX = 40
TTL_MS = 10_000
KINDS = {
    "electric.limited": Kind(letters=LETTERS, length_max=5),
    "electric.short": Kind(length_max=8),
    "electric.old": Kind(letters=LETTERS, arguments=(("x-message-ttl", TTL_MS),)),
    "electric.returned": Kind(letters=LETTERS, arguments=(("x-delivery-limit", 1),)),
    "electric.priority": Kind(priority_max=3),
    "electric.mixed": Kind(
        letters=LETTERS,
        priority_max=3,
        length_max=7,
        arguments=(("x-message-ttl", TTL_MS), ("x-delivery-limit", 1)),
    ),
}
VOLATILE = "electric.volatile"
TAKEN = (*KEPT, *(name for name in KINDS if name != "electric.short"), LETTERS)
TAKEN_AT_ONCE = (*KEPT, "electric.priority")  # before it is written; nothing leaves these by itself
QUEUES = (*KEPT, *KINDS, VOLATILE, LETTERS)


class ElectricHistory:
    """One data directory through several lives, each on what the last power cut left."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.directory = directory
        self.cuts = 0
        self.disk = directory / "disk-0"
        self.disk.mkdir()
        self.model = Model(KINDS, acks_stay=False)
        for queue in QUEUES:
            self.model.define("queue", queue, there=False)
        self.machine = Machine(str(self.disk))
        self.define()

    def define(self) -> None:
        client = self.machine.client()
        client.call(spec.Exchange.Declare(exchange=FANOUT, exchange_type="fanout", durable=True))
        for queue in (*KEPT, *KINDS, LETTERS):
            arguments = self.model.kind(queue).declared()
            client.call(spec.Queue.Declare(queue=queue, durable=True, arguments=arguments))
            self.model.define("queue", queue, there=True)
        for queue in KEPT:
            client.call(spec.Queue.Bind(queue=queue, exchange=FANOUT, routing_key=""))
        client.close()

    def run(self) -> int:
        """Several lives; how much was found safe after their ends."""
        found = 0
        for life in range(LIVES):
            self.live(life, self.chance.randint(1, ACTIONS_MAX))
            self.cut()
            found += self.safe_count()
        return found

    # -- one life

    def live(self, number: int, actions: int) -> None:
        """Things happen until the power fails, at the latest after so many of them."""
        machine, chance = self.machine, self.chance
        machine.filesystem.write_bytes_max = chance.choice([None, None, 100, 7])
        machine.filesystem.cold = number % 2 == 1
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
        self.definer = machine.client()
        self.declaring = False  # the volatile queue, not answered yet
        self.doing = [
            *[self.publish] * 6,
            *[self.wait_confirms] * 2,
            *[self.transact] * 4,
            *[self.take] * 5,
            *[self.take_at_once] * 3,
            self.purge,
            *[self.change_volatile] * 3,
            *[self.wander] * 2,
            self.wait_long,
        ]
        if chance.random() < 0.6:
            self.doing += [machine.pause_at_next_sync] * 2
        try:
            for _ in range(actions):
                chance.choice(self.doing)()
        except Lost:
            assert machine.paused.is_set(), machine.failure

    def on_confirm(self, tag: int, multiple: bool) -> None:
        for known in [known for known in self.waiting if known <= tag] if multiple else [tag]:
            text, queues = self.waiting.pop(known)
            self.model.published([text], queues)

    def text(self, may_be_transient: bool = True) -> Text:
        self.number += 1
        persistent = not may_be_transient or self.chance.random() < 0.85
        return Text(self.name, self.number, persistent, self.chance.choice([None, None, 0, 2, 4, 5, 9]))

    def some_frames(
        self, count: int, queue: str | None = None
    ) -> tuple[list[tuple[Text, tuple[str, ...]]], bytes]:
        """For one queue, and perhaps others, or for any."""
        sent, data = [], []
        for _ in range(count):
            if self.chance.random() < 0.3 and (queue is None or queue in KEPT):
                exchange, routing_key, queues = FANOUT, "", KEPT
            else:
                there = self.declaring or self.model.definitions["queue", VOLATILE]
                any_queue = self.chance.choice([*KEPT, *KINDS, *([VOLATILE] if there else [])])
                routing_key = any_queue if queue is None else queue
                exchange, queues = "", (routing_key,)
            # What is transient takes room in a queue with a limit, and has vanished from it later.
            text = self.text(may_be_transient=self.model.kind(routing_key).length_max is None)
            sent.append((text, queues))
            body = text.body(self.chance.choice([0, 50, 50, 400]))
            data.append(publish_frames(exchange, routing_key, body, text.persistent, text.priority))
        return sent, b"".join(data)

    def publish(self) -> None:
        self.send(*self.some_frames(self.chance.randint(1, 25)))
        self.machine.steps(self.chance.choice([0, 0, 1, 5]))
        self.read_confirms()

    def send(self, sent: list[tuple[Text, tuple[str, ...]]], data: bytes) -> None:
        for text, queues in sent:
            self.tag += 1
            self.model.publishing([text], queues)
            self.waiting[self.tag] = text, queues
        self.publisher.send_bytes(data)

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
            taken.append((self.model.delivered(queue, got, in_order=True), got.tag))
        return taken

    def wait_long(self) -> None:
        """Long enough for messages to grow too old."""
        self.machine.ahead_s += TTL_MS / 1000 / 2

    def transact(self) -> None:
        sent, data = self.some_frames(self.chance.randint(0, 10))
        client = self.transactor
        client.send_bytes(data)
        queue = self.chance.choice(TAKEN)
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
        queue = self.chance.choice(TAKEN)
        taken = self.get_some(self.taker, queue)
        if not taken:
            return
        keys = [key for key, _ in taken]
        chance = self.chance.random()
        if chance < 0.3:
            self.model.given_back(queue, keys)
            self.taker.send(spec.Basic.Nack(taken[-1][1], True, True))
            return
        if chance < 0.4 and self.model.kind(queue).letters is not None:
            self.model.given_back(queue, keys)  # they are to be there still, or among the letters
            self.taker.send(spec.Basic.Nack(taken[-1][1], True, False))
            return
        self.model.leaving(queue, keys)
        self.leaving.append((queue, keys))
        self.taker.send(spec.Basic.Ack(taken[-1][1], True))

    def take_at_once(self) -> None:
        """Some of what was published is done with before it is written; the rest of it stays."""
        queue = self.chance.choice(TAKEN_AT_ONCE)
        depth = self.taker.call(spec.Queue.Declare(queue=queue, passive=True)).message_count
        count = self.chance.randint(2, 12)
        self.send(*self.some_frames(count, queue))
        takes = depth + self.chance.randint(1, count)
        self.taker.send(*[spec.Basic.Get(queue=queue, no_ack=True)] * takes)
        try:
            for _ in range(takes):
                got = self.taker.wait((Delivery, spec.Basic.GetEmpty))
                if not isinstance(got, Delivery):
                    assert self.publisher.unread, f"{queue} is empty, and less was taken than was in it"
                    continue
                key = self.model.delivered(queue, got, in_order=True)
                self.model.leaving(queue, [key])
                self.leaving.append((queue, [key]))
        except Lost:
            self.model.leaving(queue, self.model.keys(queue))  # nobody knows how many of them
            raise
        self.read_confirms()

    def purge(self) -> None:
        if self.chance.random() < 0.5:
            return
        queue = self.chance.choice(KEPT)
        keys = self.model.keys(queue)
        self.model.leaving(queue, keys)
        self.taker.call(spec.Queue.Purge(queue=queue))
        self.leaving.append((queue, keys))

    def change_volatile(self) -> None:
        """Declare or delete it; while a declaration is not answered, others publish there already."""
        if self.declaring:
            self.definer.wait(spec.Queue.DeclareOk)
            self.declaring = False
            self.model.define("queue", VOLATILE, there=True)
        elif not self.model.definitions["queue", VOLATILE]:
            self.model.define("queue", VOLATILE, there=None)
            if self.chance.random() < 0.25:
                self.machine.pause_at_next_sync()
            self.definer.send(spec.Queue.Declare(queue=VOLATILE, durable=True))
            self.declaring = True
            self.publish()
        else:
            self.wait_confirms()
            keys = self.model.keys(VOLATILE)
            self.model.leaving(VOLATILE, keys)
            self.model.define("queue", VOLATILE, there=None)
            self.definer.call(spec.Queue.Delete(queue=VOLATILE))
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
        self.machine = Machine(str(self.disk), ahead_s=self.machine.ahead_s)
        self.compare()

    def compare(self) -> None:
        for queue in QUEUES:
            self.model.check_definition(("queue", queue), self.exists(queue))
        there = [queue for queue in QUEUES if self.model.definitions["queue", queue]]
        client = self.machine.client()
        self.model.check_queues(look_at(client, there))
        client.close()
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

    def safe_count(self) -> int:
        return sum(copy.state == SAFE for copies in self.model.queues.values() for copy in copies.values())

    def close(self) -> None:
        self.machine.crash()
