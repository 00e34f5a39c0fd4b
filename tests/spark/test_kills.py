"""Killed at random moments: driver, worker and broker; with a sink that fails, and options that change.

What arrives is what was promised, counted and compared message by message.

`--spark-kills 200` kills more often (`make soak`); a failure names the seed, which `--crash-seed` repeats.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from embermq.client import Channel, Connection, NotFound, Outgoing, Properties, connect
from embermq.testing import EmbeddedBroker
from tests.spark.conftest import declare_stream
from tests.spark.mortal_queries import (
    ARCHIVE,
    CLASSIC,
    KINDS,
    LEASED,
    LEASED_TOO,
    ON_RABBITMQ,
    ROWS_PER_BATCH_MAX,
    STREAM,
    SUPER,
)
from tests.spark.test_reading_streams import numbers
from tools.brokers import RabbitBroker

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0  # a busy machine takes a minute to start Spark
MESSAGES_AT_ONCE = 5 * ROWS_PER_BATCH_MAX
KILLS_IN_A_LIFE = 5
KILLS_IN_MAKE_TEST = 10
PERSISTENT = Properties(delivery_mode=2)
AnyBroker = EmbeddedBroker | RabbitBroker


class Driver:
    """The queries' process, with its JVM and its workers in a session of their own."""

    def __init__(
        self, directory: Path, broker: AnyBroker, seed: int, kinds: Sequence[str], *more: str
    ) -> None:
        self.directory = directory
        self.kinds = kinds
        self.log = directory / "log"
        command = [sys.executable, "-m", "tests.spark.mortal_queries", str(directory), broker.url]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(seed), ",".join(kinds), *more],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def batches(self) -> dict[str, int]:
        """How many batches each query has committed; by number, for Spark keeps only the last files."""
        return {
            kind: max((int(file.name) + 1 for file in self.commits(kind)), default=0) for kind in self.kinds
        }

    def commits(self, kind: str) -> Iterator[Path]:
        return (self.directory / kind / "checkpoint" / "commits").glob("[0-9]*")

    def wait_for_batch(self, kinds: Sequence[str]) -> None:
        """Until these queries have each done one more."""
        before = self.batches()
        self.wait(lambda: all(self.batches()[kind] > before[kind] for kind in kinds), f"batch of {kinds}")

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"no {what}: {self.batches()}\n{self.log.read_text()[-3000:]}"
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def members(self) -> list[int]:
        """All processes of the session: Spark's Python daemon leaves its group, but not this."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # gone meanwhile
            if int(fields[3]) == self.process.pid:
                found.append(int(entry.name))
        return found

    def workers(self) -> list[int]:
        """The processes that run tasks: children of Spark's daemon."""
        found = []
        for pid in self.members():
            try:
                parent = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1]
                if b"pyspark.daemon" in (Path("/proc") / parent / "cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return found

    def kill(self) -> None:
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def kill_a_worker(self, chance: random.Random) -> None:
        self.wait(lambda: bool(self.workers()), "worker")
        try:
            os.kill(chance.choice(self.workers()), signal.SIGKILL)
        except (ProcessLookupError, IndexError):
            pass  # it has ended by itself


class History:
    """Lives and deaths of one broker's queries."""

    def __init__(self, broker: AnyBroker, directory: Path, kinds: Sequence[str], seed: int) -> None:
        print("seed", seed)
        self.broker = broker
        self.directory = directory
        self.kinds = kinds
        self.chance = random.Random(seed)
        self.total = 0  # messages that were published to each queue
        self.queues = [queue for queue in (STREAM, LEASED, CLASSIC) if queue in kinds]

    def declare(self, channel: Channel) -> None:
        for queue in self.queues:
            kind = {"x-queue-type": "stream"} if queue == STREAM else None
            channel.queue_declare(queue, durable=True, arguments=kind)
        if LEASED in self.kinds:
            channel.queue_declare(LEASED_TOO, durable=True)
        deduplicates = None if self.kinds is ON_RABBITMQ else {"x-deduplication": True}
        channel.queue_declare("out", durable=True, arguments=deduplicates)
        if SUPER in self.kinds:
            channel.exchange_declare(SUPER, "direct", durable=True, arguments={"x-super-stream": True})
            for order in range(2):
                name = f"{SUPER}-{order}"
                declare_stream(channel, name, [])
                channel.queue_bind(name, SUPER, str(order), arguments={"x-stream-partition-order": order})

    def publish(self) -> None:
        """Somewhat more than is done before the next kill."""
        bodies = numbers(self.total, self.total + MESSAGES_AT_ONCE)
        with connect(self.broker.url) as connection, connection.channel() as channel:
            for queue in self.queues:
                self.wait_for_queue(connection, queue)
            for queue in self.queues:
                keys = [LEASED, LEASED_TOO] if queue == LEASED else [queue]
                for index, key in enumerate(keys):
                    some = bodies[index :: len(keys)]
                    channel.publish_batch(some, key, properties=PERSISTENT, mandatory=True)
            if SUPER in self.kinds:
                keyed = [
                    Outgoing(body, str(number % 2), SUPER, PERSISTENT) for number, body in enumerate(bodies)
                ]
                channel.publish_batch(keyed, mandatory=True)
        self.total += MESSAGES_AT_ONCE

    def wait_for_queue(self, connection: Connection, queue: str) -> None:
        """RabbitMQ listens before its queues are back, and confirms what it then drops."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with connection.channel() as channel:
                    channel.queue_declare(queue, passive=True)
                return
            except NotFound:
                assert time.monotonic() < deadline, f"queue '{queue}' is not back"
                time.sleep(0.05)

    def new_driver(self, *more: str) -> Driver:
        return Driver(self.directory, self.broker, self.chance.randrange(1 << 30), self.kinds, *more)

    def live(self, kills: int) -> None:
        """One life of a driver, with so many kills: its own is the last one."""
        self.publish()
        driver = self.new_driver()
        try:
            driver.wait_for_batch(self.kinds)
            for _ in range(kills - 1):
                if self.chance.random() < 0.5:
                    driver.kill_a_worker(self.chance)
                else:
                    self.broker.kill()
                    time.sleep(self.chance.random())
                    self.broker.start()
                self.publish()
                time.sleep(2 * self.chance.random())
            driver.wait_for_batch([self.chance.choice(self.kinds)])
            time.sleep(self.chance.random())
        finally:
            driver.kill()

    def end(self) -> None:
        driver = self.new_driver("--to-the-end")
        try:
            assert driver.process.wait(PATIENCE_S) == 0, driver.log.read_text()[-3000:]
        finally:
            driver.kill()

    def sunk(self) -> list[bytes]:
        """What the sink's queue has, by a client."""
        with connect(self.broker.url) as connection, connection.channel(prefetch=None) as channel:
            count = channel.queue_declare("out", passive=True).message_count
            with channel.consume("out", no_ack=True) as consumer:
                return [message.body for message in consumer.fetch_all(count, PATIENCE_S)]

    def waiting(self, queue: str) -> int:
        with connect(self.broker.url) as connection, connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)


def run_history(history: History, kills: int) -> None:
    with connect(history.broker.url) as connection, connection.channel() as channel:
        history.declare(channel)
    while kills:
        here = min(kills, KILLS_IN_A_LIFE)
        history.live(here)
        kills -= here
    history.end()


def seed_of(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--crash-seed")
    return random.randrange(1 << 30) if given is None else int(given)


@pytest.mark.timeout(0)  # as long as there are kills; whatever is waited for has a deadline
def test_everything_is_killed_again_and_again(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with EmbeddedBroker(persistent=True, process=True) as broker:
        history = History(broker, tmp_path, KINDS, seed_of(request))
        run_history(history, request.config.getoption("--spark-kills"))
        sunk, left = history.sunk(), history.waiting(LEASED) + history.waiting(LEASED_TOO)
    once = Counter(numbers(0, history.total))
    assert left == 0
    assert Counter(sunk) == once
    for kind in (STREAM, SUPER):
        assert Counter(rows_in(spark, tmp_path / kind / "rows")) == once, kind
    for kind in (LEASED, ARCHIVE):
        assert Counter(bodies_in(tmp_path / kind / "rows")) == once, kind
    assert set(rows_in(spark, tmp_path / CLASSIC / "rows")) == set(once)


@pytest.mark.skipif(not RabbitBroker.installed(), reason="RabbitMQ (Debian: rabbitmq-server) is missing")
@pytest.mark.timeout(0)
def test_with_rabbitmq(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What it can do: a stream exactly once, a queue and the sink at least once. Only in `make soak`."""
    kills = request.config.getoption("--spark-kills")
    if kills <= KILLS_IN_MAKE_TEST:
        pytest.skip("RabbitMQ takes long to start again and again: `make soak` does it")
    with RabbitBroker() as broker:
        history = History(broker, tmp_path, ON_RABBITMQ, seed_of(request))
        run_history(history, kills // 4)
        sunk = history.sunk()
    once = Counter(numbers(0, history.total))
    assert Counter(rows_in(spark, tmp_path / STREAM / "rows")) == once
    assert set(rows_in(spark, tmp_path / CLASSIC / "rows")) == set(once)
    assert set(sunk) == set(once)


def rows_in(spark: SparkSession, path: Path) -> list[bytes]:
    """By Spark, which knows what of its own sink's files counts."""
    return [bytes(row.body) for row in spark.read.parquet(str(path)).collect()]


def bodies_in(path: Path) -> list[bytes]:
    """Every file that is there."""
    files = [str(file) for file in path.rglob("*.parquet") if not file.is_relative_to(path / "_staging")]
    found = pyarrow.dataset.dataset(files, format="parquet").to_table(columns=["body"])
    return list(found.column("body").to_pylist())
