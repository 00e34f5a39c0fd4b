"""The Spark data source against Python sources and sinks that do nothing but Spark's own work.

Reading: a stream, against a source that hands Spark the same rows. Writing: those rows into a stream,
confirmed, against a sink that throws them away. Same schema, same run, in turns. The stream that is written
to keeps its last 256 MB: one that grows by gigabytes measures how quickly the machine finds memory for the
file cache. Lag: a streaming query with its default trigger under 10,000 messages/s; of every batch the age of
its oldest message when the batch is done. Other ways of reading and writing: bench/spark_cases.py.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench import spark_sources
from bench.clients import write_between
from bench.spark_cases import measured
from bench.spark_sources import BATCH_ROWS, SCHEMA, MemorySource, PikaSource
from embermq.client import Channel, connect
from pyspark_embermq.pipelines.session import spark_session
from tools.brokers import EmberBroker

SIZES = {100: 4_000_000, 1024: 1_200_000}  # bytes of a body, messages
TASKS = (1, 2, 4)
SINK_BYTES_MAX = 256_000_000
LAG_RATE = 10_000
BEGIN, END = "<!-- spark: begin -->", "<!-- spark: end -->"


def memory_rows(spark: SparkSession, size: int, count: int, parts: int) -> DataFrame:
    reader = spark.read.format("memory_rows").option("size", size).option("count", count)
    return reader.option("parts", parts).load()


def rate(count: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def take(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def declare(channel: Channel, queue: str, **limits: object) -> None:
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream", **limits})


def fill(url: str, queue: str, size: int, count: int) -> None:
    with connect(url) as connection, connection.channel() as channel:
        declare(channel, queue)
        for _ in range(count // BATCH_ROWS):
            channel.publish_batch([b"x" * size] * BATCH_ROWS, queue)


def measure(
    spark: SparkSession, url: str, size: int, count: int, parts: int, runs: int, only: str
) -> list[str]:
    """A row of the table: reading and writing, with how much of the memory source's rate that is.

    `only` is what the names of the works begin with that are done.
    """
    queue = f"bench-{size}"
    stream = spark.read.format("amqp").option("url", url).option("queue", queue).schema(SCHEMA)
    stream = stream.option("minPartitions", parts)
    memory = memory_rows(spark, size, count, parts)
    bodies = memory.select("body")

    def send(form: str) -> None:
        writer = bodies.write.format(form).option("url", url).option("routingKey", "bench-sink")
        writer.mode("append").save()

    works: dict[str, Callable[[], None]] = {
        "read": lambda: take(stream.load()),
        "read from memory": lambda: take(memory),
        "written": lambda: send("amqp"),
        "written to nowhere": lambda: send("memory_rows"),
    }
    works = {name: work for name, work in works.items() if name.startswith(only)}
    rates: dict[str, list[float]] = {name: [] for name in works}
    for number in range(runs + 1):
        for name, work in works.items():
            found = rate(count, work)
            if number:  # the first round starts Python workers and compiles
                rates[name].append(found)
    middle = {name: median(found) for name, found in rates.items()}
    print(size, parts, {name: round(value) for name, value in middle.items()}, flush=True)
    row = [f"{size:,} B", str(parts)]
    for ours, spark_alone in (("read", "read from memory"), ("written", "written to nowhere")):
        if ours in middle:
            share = middle[ours] / middle[spark_alone]
            row += [f"{middle[ours]:,.0f}", f"{middle[spark_alone]:,.0f}", f"{share:.0%}"]
        else:
            row += ["", "", ""]
    return row


def publish_steadily(url: str, queue: str, seconds: float) -> None:
    with connect(url) as connection, connection.channel() as channel:
        began = time.monotonic()
        sent = 0
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * LAG_RATE) - sent
            if due > 0:
                channel.publish_batch_soon([f"{time.time():.6f}".encode()] * due, queue)
                sent += due
            time.sleep(0.01)


def lag(spark: SparkSession, url: str, seconds: float) -> list[float]:
    """The age of the oldest message in each batch when the batch was done; the first batches are left out."""
    with connect(url) as connection, connection.channel() as channel:
        declare(channel, "bench-lag")
    ages: list[float] = []

    def done(batch: DataFrame, number: int) -> None:
        (row,) = batch.selectExpr("min(cast(cast(body as string) as double)) as oldest").collect()
        if row.oldest is not None and time.monotonic() > warm_at:
            ages.append(time.time() - row.oldest)

    warm_at = time.monotonic() + seconds / 2
    frame = spark.readStream.format("amqp").option("url", url).option("queue", "bench-lag")
    query = frame.schema("body binary").load().writeStream.foreachBatch(done).start()
    publisher = threading.Thread(target=publish_steadily, args=(url, "bench-lag", seconds))
    publisher.start()
    publisher.join()
    stop_between_batches(query)
    return sorted(ages)


def stop_between_batches(query: StreamingQuery) -> None:
    """A query that is stopped in the middle of `foreachBatch` leaves pages of Java's stack behind."""
    query.processAllAvailable()
    query.stop()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench spark", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on numbers of messages")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--tasks", type=int, nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--only", choices=("read", "written"), default="", help="leave the other out")
    parser.add_argument("--lag-seconds", type=float, default=30.0, help="0: leave it out")
    parser.add_argument("--cases", default="", help="those with this text in their names; 'none'")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(arguments)
    cloudpickle.register_pickle_by_value(spark_sources)
    spark = spark_session("embermq bench", "local[2]")
    spark.dataSource.register(MemorySource)
    spark.dataSource.register(PikaSource)
    lines = [
        "| body | tasks | rows read/s | from memory | | rows written/s | to nowhere | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    with EmberBroker() as broker:
        with connect(broker.url) as connection, connection.channel() as channel:
            limits = {
                "x-max-length-bytes": SINK_BYTES_MAX,
                "x-stream-max-segment-size-bytes": SINK_BYTES_MAX // 8,
            }
            declare(channel, "bench-sink", **limits)
        for size in options.sizes:
            step = max(TASKS) * BATCH_ROWS
            count = max(int(SIZES[size] * options.scale) // step, 1) * step
            fill(broker.url, f"bench-{size}", size, count)
            for parts in options.tasks:
                row = measure(spark, broker.url, size, count, parts, options.runs, options.only)
                lines.append(f"| {' | '.join(row)} |")
        cases = measured(spark, broker, options.scale, options.runs, options.cases)
        ages = lag(spark, broker.url, options.lag_seconds) if options.lag_seconds else []
    spark.stop()
    lines += ["", *cases]
    if ages:
        found = (
            f"Lag at {LAG_RATE:,} messages/s with the default trigger: {median(ages):.2f} s for the oldest "
            f"message of a batch in the middle, {ages[-1]:.2f} s at most, of {len(ages)} batches."
        )
        lines += ["", found]
    command = " ".join(["python", "-m", "bench", "spark", *arguments])
    lines += ["", f"Medians of {options.runs}; {datetime.now(UTC):%Y-%m-%d}, `{command}`."]
    print("\n".join(lines))
    if options.write:
        write_between(BEGIN, END, lines)
    return 0
