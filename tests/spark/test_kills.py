"""Killed in the middle of batches: the driver, a worker, the broker. What arrives is what was promised.

`--spark-kills 20` kills more often (`make soak`).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.client import Properties, connect
from embermq.testing import EmbeddedBroker
from tests.spark.mortal_queries import CLASSIC, KINDS, LEASED, ROWS_PER_BATCH, SINK, STREAM
from tests.spark.test_reading_streams import numbers

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0  # a busy machine takes a minute to start Spark
MESSAGES_AT_ONCE = 20 * ROWS_PER_BATCH


class Driver:
    """The queries' process, with its JVM and its workers in a session of their own."""

    def __init__(self, directory: Path, broker: EmbeddedBroker, *arguments: str) -> None:
        self.directory = directory
        self.log = directory / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.spark.mortal_queries",
                    str(directory),
                    broker.url,
                    broker.http_url,
                    *arguments,
                ],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def batches(self) -> dict[str, int]:
        """How many batches each query has committed; by number, for Spark keeps only the last files."""
        return {kind: max((int(file.name) + 1 for file in self.commits(kind)), default=0) for kind in KINDS}

    def commits(self, kind: str) -> Iterator[Path]:
        return (self.directory / kind / "checkpoint" / "commits").glob("[0-9]*")

    def wait_for_batches(self, count: int = 1) -> None:
        """Until every query has done that many more."""
        goal = {kind: done + count for kind, done in self.batches().items()}
        self.wait(lambda: all(done >= goal[kind] for kind, done in self.batches().items()), "new batches")

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

    def kill_a_worker(self) -> None:
        self.wait(lambda: bool(self.workers()), "worker")
        try:
            os.kill(random.choice(self.workers()), signal.SIGKILL)
        except (ProcessLookupError, IndexError):
            pass  # it has ended by itself


def publish(broker: EmbeddedBroker, total: int) -> int:
    """More than is done before the next kill; how many there are now."""
    end = total + MESSAGES_AT_ONCE
    with connect(broker.url) as connection, connection.channel() as channel:
        for queue in (STREAM, LEASED, CLASSIC):
            channel.publish_batch(numbers(total, end), queue, properties=Properties(delivery_mode=2))
    return end


@pytest.mark.timeout(0)  # as long as there are kills; whatever is waited for has a deadline
def test_everything_is_killed_again_and_again(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--spark-kills")
    driver: Driver | None = None
    total = 0
    with EmbeddedBroker(persistent=True, process=True) as broker:
        try:
            with connect(broker.url) as connection, connection.channel() as channel:
                channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
                channel.queue_declare(LEASED, durable=True)
                channel.queue_declare(CLASSIC, durable=True)
                channel.queue_declare("out", durable=True, arguments={"x-deduplication": True})
            for number in range(kills):
                total = publish(broker, total)
                driver = Driver(tmp_path, broker)
                driver.wait_for_batches(1)
                if number % 2:
                    driver.kill_a_worker()
                else:
                    broker.kill()
                    time.sleep(random.random())
                    broker.start()
                total = publish(broker, total)
                driver.wait_for_batches(1)
                time.sleep(random.random())
                driver.kill()
            driver = Driver(tmp_path, broker, "--to-the-end")
            assert driver.process.wait(PATIENCE_S) == 0, driver.log.read_text()[-3000:]
            with connect(broker.url) as connection, connection.channel(prefetch=None) as channel:
                count = channel.queue_declare("out", passive=True).message_count
                with channel.consume("out", no_ack=True) as consumer:
                    sunk = [message.body for message in consumer.fetch_all(count, PATIENCE_S)]
                assert channel.queue_declare(LEASED, passive=True).message_count == 0
        finally:
            if driver is not None:
                driver.kill()
    once = Counter(numbers(0, total))
    arrived = {kind: Counter(rows_in(spark, tmp_path / kind / "rows")) for kind in KINDS if kind != SINK}
    assert arrived[STREAM] == once
    assert arrived[LEASED] == once
    assert set(arrived[CLASSIC]) == set(once)
    assert Counter(sunk) == once


def rows_in(spark: SparkSession, path: Path) -> list[bytes]:
    return [bytes(row.body) for row in spark.read.parquet(str(path)).collect()]
