"""`archive`: everything that passes an exchange or queue, kept as Parquet; `replay`: from there back.

    PATH/date=2026-11-16/exchange=orders/hour=09/batch-00000042-0.parquet

A batch's files carry its number. A batch that Spark runs again after a crash first removes what it left
behind, so every message is in the archive exactly once if the source is a stream. Compaction turns the many
small files of a past hour into one whose name says which batches it holds; what a crash leaves of these is
removed by the next run.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from embermq.client import connect
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.running import triggered

PARTITIONS = ("date", "exchange", "hour")
STAGING = "_staging"
BATCH_FILE = re.compile(r"batch-(\d{8})-\d+\.parquet")
COMPACT_FILE = re.compile(r"compact-(\d{8})-(\d{8})\.parquet")
NO_EXCHANGE = "(default)"


@dataclass(frozen=True)
class Archive:
    """What is archived, and where: a local directory, or one that is mounted."""

    url: str
    path: str
    checkpoint: str
    queue: str = ""
    exchange: str = ""
    routing_key: str = "#"
    trigger: str = "1 minute"
    max_records_per_trigger: int = 1_000_000


def source_queue(archive: Archive) -> str:
    """The queue to read: the one given, or a stream of our own that is bound to the exchange."""
    if bool(archive.queue) == bool(archive.exchange):
        raise AMQPSourceError("say what to archive: a queue or an exchange")
    if archive.queue:
        return archive.queue
    name = f"archive.{archive.exchange}"
    with connect(archive.url) as connection, connection.channel() as channel:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})
        channel.queue_bind(name, archive.exchange, archive.routing_key)
    return name


def start(spark: SparkSession, archive: Archive, once: bool) -> StreamingQuery:
    frame = (
        spark.readStream.format("amqp")
        .option("url", archive.url)
        .option("queue", source_queue(archive))
        .option("maxRecordsPerTrigger", archive.max_records_per_trigger)
        .load()
    )
    moment = sql.coalesce("timestamp", "ingest_timestamp")
    rows = (
        frame.withColumn("exchange", sql.when(frame.exchange == "", NO_EXCHANGE).otherwise(frame.exchange))
        .withColumn("date", sql.to_date(moment))
        .withColumn("hour", sql.date_format(moment, "HH"))
    )
    writer = (
        rows.writeStream.queryName("archive")
        .foreachBatch(lambda batch, number: add_batch(batch, number, Path(archive.path)))
        .option("checkpointLocation", archive.checkpoint)
    )
    return triggered(writer, archive.trigger, once).start()


def add_batch(rows: DataFrame, number: int, path: Path) -> None:
    """Write one batch; the same batch again replaces what it wrote before."""
    staging = path / STAGING / f"{number:08d}"
    for old in path.rglob(f"batch-{number:08d}-*.parquet"):
        old.unlink()
    rows.write.mode("overwrite").partitionBy(*PARTITIONS).parquet(str(staging))
    counts: dict[Path, int] = {}
    for file in sorted(staging.rglob("part-*.parquet")):
        target = path / file.parent.relative_to(staging)
        target.mkdir(parents=True, exist_ok=True)
        index = counts[target] = counts.get(target, -1) + 1
        file.replace(target / f"batch-{number:08d}-{index}.parquet")
    shutil.rmtree(staging)


def hours(path: Path) -> Iterator[Path]:
    """The directories that hold files."""
    yield from sorted(hour for hour in path.glob("date=*/exchange=*/hour=*") if hour.is_dir())


def clean_up(hour: Path) -> None:
    """Remove files whose batches are in a compacted one: a compaction was cut short."""
    ranges = [match for file in hour.iterdir() if (match := COMPACT_FILE.fullmatch(file.name))]
    for file in hour.iterdir():
        match = BATCH_FILE.fullmatch(file.name)
        if match and any(int(found[1]) <= int(match[1]) <= int(found[2]) for found in ranges):
            file.unlink()


def compact(spark: SparkSession, path: Path, files_min: int = 2, quiet_s: float = 3600.0) -> int:
    """Make one file of the many in every hour that nothing was added to for a while; how many hours."""
    done = 0
    for hour in hours(path):
        clean_up(hour)
        files = sorted(file for file in hour.iterdir() if BATCH_FILE.fullmatch(file.name))
        if len(files) < files_min or time.time() - max(file.stat().st_mtime for file in files) < quiet_s:
            continue
        numbers = [int(match[1]) for file in files if (match := BATCH_FILE.fullmatch(file.name))]
        staging = path / STAGING / "compact"
        spark.read.parquet(*(str(file) for file in files)).coalesce(1).write.mode("overwrite").parquet(
            str(staging)
        )
        (written,) = staging.glob("part-*.parquet")
        written.replace(hour / f"compact-{min(numbers):08d}-{max(numbers):08d}.parquet")
        clean_up(hour)
        shutil.rmtree(staging)
        done += 1
    return done


def replay(
    spark: SparkSession,
    url: str,
    path: str,
    exchange: str,
    where: str = "true",
    rows_per_second: int = 0,
) -> int:
    """Publish archived messages to an exchange again, in the order in which they came; how many."""
    if not Path(path).is_dir():
        raise AMQPSourceError(f"there is no archive at {path}")
    frame = spark.read.option("mergeSchema", "true").parquet(path).where(where)
    rows = frame.orderBy(sql.coalesce("timestamp", "ingest_timestamp"), "offset").drop(*PARTITIONS)
    count = rows.count()
    if not count:
        return 0
    sending = rows.drop("queue", "offset", "redelivered", "ingest_timestamp", "headers_json", "user_id")
    size = rows_per_second or count
    numbered = sending.withColumn("piece", sql.expr(f"int((row_number() over (order by 1) - 1) / {size})"))
    pieces = -(-count // size)
    for piece in range(pieces):
        begun = time.monotonic()
        part = numbered.where(f"piece = {piece}").drop("piece").coalesce(1)
        part.write.format("amqp").option("url", url).option("exchange", exchange).mode("append").save()
        if piece < pieces - 1:
            time.sleep(max(1.0 - (time.monotonic() - begun), 0.0))
    return count
