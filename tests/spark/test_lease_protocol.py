"""Exactly once from queues, by random schedules: a driver that follows Spark's protocol, and its accidents.

The driver is Spark's MicroBatchExecution, of which only the calls to the source and the two logs of its
checkpoint are left; after each of its steps, and between the leases of a batch, it may be killed, stopped for
minutes, or started anew with other options and other queues. The broker is a real one, and so is the reader;
only the time of leases is ours.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from embermq.broker.lease.lease import OPEN
from embermq.broker.lease.registry import Leases as BrokerLeases
from embermq.client import Channel, Outgoing, Properties, connect
from embermq.testing import EmbeddedBroker
from embermq.testing.host import ThreadHost
from pyspark_embermq.errors import DataLossError, Missing, Unreachable
from pyspark_embermq.options import Options
from pyspark_embermq.source.lease_reader import FIRST_TIMEOUT_MS, LeaseReader

SCHEMA = StructType().add("body", "binary")
TIMEOUT_MS = 300_000  # no machine is so slow that the thread which renews them comes to it by itself
STEPS = 70
QUEUES_MAX = 4
STEPS_MAX = 5000  # of a query that is left in peace
Offset = dict[str, Any]


class Checkpoint:
    """What outlives a driver: Spark's two logs, and a sink that writes a batch once."""

    def __init__(self) -> None:
        self.offsets: list[Offset] = []
        self.commits = 0
        self.sink: dict[int, list[bytes]] = {}

    def write(self, batch: int, rows: list[bytes]) -> None:
        # A sink may have got some rows of a batch before a crash: the same ones must come again.
        assert self.sink.setdefault(batch, rows) == rows

    def rows(self) -> Counter[bytes]:
        return Counter(body for rows in self.sink.values() for body in rows)


class Killed(Exception):
    """The driver is no more."""


class MortalReader(LeaseReader):
    """Killed when it has taken so many leases."""

    lives = -1

    def take(self, queue: str, start: Offset, shares: dict[str, int]) -> int:
        found = super().take(queue, start, shares)
        self.lives -= 1
        if self.lives == 0:
            raise Killed
        return found


class Driver:
    """One life of a driver."""

    def __init__(
        self, checkpoint: Checkpoint, options: Options, queues: Sequence[str], chance: random.Random
    ) -> None:
        options = replace(options, min_partitions=chance.choice([1, 3]))
        self.checkpoint = checkpoint
        self.reader = MortalReader(SCHEMA, options, queues)
        if chance.random() < 0.2:
            self.reader.lives = chance.randint(1, len(queues))
        self.limit = ReadMaxRows(chance.choice([1, 7, 1000]))
        self.idle = 0  # polls in vain
        self.steps = self.run(chance.random() < 0.3)

    def run(self, available_now: bool) -> Iterator[None]:
        checkpoint, reader = self.checkpoint, self.reader
        if available_now:
            reader.prepareForTriggerAvailableNow()
        if checkpoint.offsets:
            reader.partitions(checkpoint.offsets[-1], checkpoint.offsets[-1])
        if checkpoint.commits < len(checkpoint.offsets):
            yield from self.batch(checkpoint.commits)
        while True:
            start = checkpoint.offsets[-1] if checkpoint.offsets else reader.initialOffset()
            end = reader.latestOffset(start, self.limit)
            yield
            if checkpoint.offsets and end == start:
                self.idle += 1
                continue
            checkpoint.offsets.append(end)
            yield
            if len(checkpoint.offsets) > 1:
                reader.commit(checkpoint.offsets[-2])
                yield
            yield from self.batch(len(checkpoint.offsets) - 1)

    def batch(self, number: int) -> Iterator[None]:
        checkpoint, reader = self.checkpoint, self.reader
        start = checkpoint.offsets[number - 1] if number else reader.initialOffset()
        parts = reader.partitions(start, checkpoint.offsets[number])
        yield
        rows = [
            body.as_py() for part in parts for batch in reader.read(part) for body in batch.column("body")
        ]
        yield
        checkpoint.write(number, rows)
        yield
        checkpoint.commits = number + 1
        yield

    def renew(self) -> None:
        self.reader.renewal.renew(self.reader.link)

    def kill(self) -> None:
        self.reader.renewal.stop()
        self.reader.link.close()


def on_leases(broker: EmbeddedBroker, vhost: str, act: Callable[[BrokerLeases, Any], object]) -> None:
    """Do something to all open leases, in the broker's own thread."""
    host = broker.running
    assert isinstance(host, ThreadHost) and host.loop is not None
    leases = host.inside.app.broker.vhosts[vhost].leases

    async def all_of_them() -> None:
        leases.vhost.turn.refresh()
        for lease in [lease for each in leases.of.values() for lease in each.values()]:
            if lease.state == OPEN:
                act(leases, lease)

    asyncio.run_coroutine_threadsafe(all_of_them(), host.loop).result()


def pass_time(broker: EmbeddedBroker, vhost: str, ms: int) -> None:
    """For leases it is later than it is."""

    def grow_older(leases: BrokerLeases, lease: Any) -> None:
        if lease.expires_ms:
            lease.expires_ms -= ms
            leases.on_due(lease, leases.vhost.turn.now_ms)

    on_leases(broker, vhost, grow_older)


class World:
    def __init__(self, broker: EmbeddedBroker, vhost: str, chance: random.Random) -> None:
        self.broker = broker
        self.vhost = vhost
        self.chance = chance
        self.url = broker.url_of(vhost)
        self.has_pattern = chance.random() < 0.5
        pattern = r"q\d" if self.has_pattern else ""
        timeout_ms = chance.choice([0, TIMEOUT_MS])
        self.options = Options(url=self.url, lease_timeout_ms=timeout_ms, subscribe_pattern=pattern)
        self.queues: list[str] = []
        self.reads_all = False
        self.checkpoint = Checkpoint()
        self.driver: Driver | None = None
        self.published = 0
        self.stolen: list[bytes] = []
        for _ in range(chance.randint(1, 3)):
            self.add_queue()

    # -- what happens

    def step(self) -> None:
        """One step of the driver, which is started if there is none.

        A query fails without its broker, or if its lease ends while a task reads: it is started again.
        """
        try:
            if self.driver is None:
                self.driver = Driver(self.checkpoint, self.options, self.chosen(), self.chance)
            next(self.driver.steps)
        except (Unreachable, Missing, Killed):
            self.kill()

    def chosen(self) -> list[str]:
        """What a driver reads: everything by a pattern, else the first queue and any others."""
        some = self.chance.sample(self.queues[1:], self.chance.randint(0, len(self.queues) - 1))
        return self.queues if self.has_pattern or self.reads_all else [self.queues[0], *some]

    def add_queue(self) -> None:
        if len(self.queues) < QUEUES_MAX:
            with connect(self.url) as connection, connection.channel() as channel:
                channel.queue_declare(f"q{len(self.queues)}", durable=True)
            self.queues.append(f"q{len(self.queues)}")

    def kill(self) -> None:
        if self.driver is not None:
            self.driver.kill()
            self.driver = None

    def publish(self) -> None:
        count = self.chance.randint(1, 12)
        persistent = Properties(delivery_mode=2)
        bodies = [b"%d" % number for number in range(self.published, self.published + count)]
        with connect(self.url) as connection, connection.channel() as channel:
            channel.publish_batch(
                [Outgoing(body, self.chance.choice(self.queues), "", persistent) for body in bodies]
            )
        self.published += count

    def wait(self, ms: int | None = None) -> None:
        """Time passes; a driver that is there renews its leases meanwhile."""
        left = self.chance.choice([1000, TIMEOUT_MS // 2, 3 * TIMEOUT_MS]) if ms is None else ms
        while left > 0:
            pass_time(self.broker, self.vhost, min(left, TIMEOUT_MS // 3))
            left -= TIMEOUT_MS // 3
            if self.driver is not None:
                self.driver.renew()

    def release(self) -> None:
        """An operator gives everything back."""
        on_leases(self.broker, self.vhost, lambda leases, lease: leases.release(lease))

    def restart(self) -> None:
        if self.chance.random() < 0.5:
            self.broker.kill()
            self.broker.start()
        else:
            self.broker.restart()

    def steal(self) -> None:
        """Another consumer of the queue takes some of what is ready, for good."""
        if self.chance.random() < 0.5:
            self.release()
        with connect(self.url) as connection, connection.channel(confirms=False) as channel:
            with channel.transaction():
                for _ in range(self.chance.randint(1, 5)):
                    message = channel.get(self.chance.choice(self.queues))
                    if message is not None:
                        self.stolen.append(message.body)
                        message.ack()

    def to_the_end(self) -> None:
        """Without further harm, until nothing is left; a first lease that was never written down is over."""
        self.kill()
        self.reads_all = True
        self.wait(2 * FIRST_TIMEOUT_MS)
        for _ in range(2):
            self.run_until_idle()
        self.kill()
        for queue in self.queues:
            self.broker.wait_until_empty(queue, self.vhost)

    def run_until_idle(self) -> None:
        self.kill()
        for _ in range(STEPS_MAX):
            self.step()
            if self.driver is not None and self.driver.idle >= 2:
                break
        else:
            raise AssertionError("the query never comes to rest")
        self.kill()


HARM = [World.kill, World.publish, World.wait, World.wait, World.release, World.restart, World.add_queue]
ACTIONS = [*[World.step] * 20, *HARM]


@pytest.fixture(scope="module")
def lasting() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as made:
        yield made


def seeds(request: pytest.FixtureRequest, first: int) -> range:
    return range(first, first + max(int(request.config.getoption("--cycles")) // 3, 1))


def test_every_message_once_whatever_happens(lasting: EmbeddedBroker, request: pytest.FixtureRequest) -> None:
    """Nothing else takes from the queues: then a lease that was lost is always had again."""
    for seed in seeds(request, 0):
        chance = random.Random(seed)
        with lasting.vhost() as vhost:
            world = World(lasting, vhost, chance)
            world.publish()
            for _ in range(chance.randint(0, 2)):
                world.step()
                world.kill()  # before Spark has written down what it was told
            has_operator = chance.random() < 0.5
            actions = [action for action in ACTIONS if has_operator or action is not World.release]
            for _ in range(STEPS):
                chance.choice(actions)(world)
            world.to_the_end()
            once = Counter(b"%d" % number for number in range(world.published))
            assert world.checkpoint.rows() == once, seed


def test_what_another_consumer_has_taken_is_told(
    lasting: EmbeddedBroker, request: pytest.FixtureRequest
) -> None:
    """Its batch cannot be had again: the query says so, has nothing twice, and loses nothing."""
    told = 0
    for seed in seeds(request, 1000):
        chance = random.Random(seed)
        with lasting.vhost() as vhost:
            world = World(lasting, vhost, chance)
            world.publish()
            try:
                for _ in range(STEPS):
                    chance.choice([*ACTIONS, World.steal, World.steal])(world)
                world.to_the_end()
                lost = False
            except DataLossError:
                lost = True
            world.kill()
            rows, stolen = world.checkpoint.rows(), Counter(world.stolen)
            if lost:
                told += 1
                assert max(rows.values(), default=1) == 1, seed
                world.release()
                with connect(world.url) as connection, connection.channel() as channel:
                    for queue in world.queues:
                        rows.update(iter(partial(one_of, channel, queue), b""))
                assert set(rows + stolen) == {b"%d" % number for number in range(world.published)}, seed
            else:
                once = Counter(b"%d" % number for number in range(world.published))
                assert rows + stolen == once, seed
    assert told, "no schedule has come to it: choose others"


def one_of(channel: Channel, queue: str) -> bytes:
    message = channel.get(queue, no_ack=True)
    return b"" if message is None else bytes(message.body)
