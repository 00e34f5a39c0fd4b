"""`archive`: everything that passes an exchange or queue, kept as Parquet; `replay`: from there back.

    PATH/date=2026-11-16/exchange=orders/hour=09/batch-00000042-0.parquet

A batch's files carry its number. A batch that Spark runs again after a crash first removes what it left
behind, so every message is in the archive exactly once if the source is a stream. Compaction turns the many
small files of a past hour into one whose name says which batches it holds; what a crash leaves of these is
removed by the next run. Files of different ages may have different columns: whoever reads them merges these.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_embermq.broker_link import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines.running import triggered

PARTITIONS = ("date", "exchange", "hour")
STAGING = "_staging"
BATCH_FILE = re.compile(r"batch-(\d{8})-\d+\.parquet")
COMPACT_FILE = re.compile(r"compact-(\d{8})-(\d{8})\.parquet")
NO_EXCHANGE = "(default)"
COMPACTION_S = 3600.0  # how often an archive that goes on looks for hours that are over


@dataclass(frozen=True)
class Archive:
    """What is archived, and where: a local directory, or one that is mounted."""

    url: str
    path: str
    checkpoint: str
    queue: str = ""
    exchange: str = ""
    keys: Sequence[str] = ("#",)  # what the stream is bound with: everything, of a topic exchange
    trigger: str = "1 minute"
    max_records_per_trigger: int = 1_000_000


def local_path(path: str) -> str:
    """An archive's files are moved and removed by name, which takes a file system."""
    plain = path.removeprefix("file://")
    if "://" in plain:
        raise AMQPSourceError(
            f"{path}: archives and tables of traffic are kept in a directory of this machine (or mounted "
            "there). A pipeline in a file can write to any place that Spark knows"
        )
    return plain


def existing(path: str) -> str:
    if not Path(local_path(path)).is_dir():
        raise AMQPSourceError(f"there is no archive at {path}")
    return local_path(path)


def filled(path: str) -> str:
    if next(Path(existing(path)).glob("date=*/exchange=*/hour=*/*.parquet"), None) is None:
        raise AMQPSourceError(f"the archive at {path} holds nothing yet")
    return local_path(path)


def source_queue(archive: Archive) -> str:
    """The queue to read: the one given, or a stream of our own that is bound to the exchange."""
    if bool(archive.queue) == bool(archive.exchange):
        raise AMQPSourceError("say what to archive: a queue or an exchange")
    if archive.queue:
        return archive.queue
    name = f"archive.{archive.exchange}"
    with BrokerLink(Options(url=archive.url)) as link, link.channel(prefetch=None, confirms=False) as channel:
        channel.exchange_declare(archive.exchange, passive=True)  # before anything is made for it
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})
        for key in archive.keys:
            channel.queue_bind(name, archive.exchange, key)
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
    path = Path(archive.path)
    compacted_at = time.monotonic()

    def keep(batch: DataFrame, number: int) -> None:
        nonlocal compacted_at
        add_batch(batch, number, path)
        if time.monotonic() - compacted_at > COMPACTION_S:
            compacted_at = time.monotonic()
            compact(batch.sparkSession, path)

    writer = (
        rows.writeStream.queryName("archive")
        .foreachBatch(keep)
        .option("checkpointLocation", archive.checkpoint)
    )
    return triggered(writer, archive.trigger, once).start()


def add_batch(rows: DataFrame, number: int, path: Path, partitions: tuple[str, ...] = PARTITIONS) -> None:
    """Write one batch; the same batch again replaces what it wrote before."""
    staging = path / STAGING / f"{number:08d}"
    for old in path.rglob(f"batch-{number:08d}-*.parquet"):
        old.unlink()
    rows.write.mode("overwrite").partitionBy(*partitions).parquet(str(staging))
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
        rows = spark.read.option("mergeSchema", "true").parquet(*(str(file) for file in files))
        rows.coalesce(1).write.mode("overwrite").parquet(str(staging))
        (written,) = staging.glob("part-*.parquet")
        written.replace(hour / f"compact-{min(numbers):08d}-{max(numbers):08d}.parquet")
        clean_up(hour)
        shutil.rmtree(staging)
        done += 1
    return done


@dataclass(frozen=True)
class Choice:
    """Which messages of an archive: all of these conditions that are given."""

    since: str = ""  # times as Spark reads them: 2026-11-16, 2026-11-16 09:30:00
    until: str = ""
    key: str = ""  # a pattern as in a topic exchange: eu.*.paid, eu.#
    where: str = "true"

    def of(self, frame: DataFrame) -> DataFrame:
        chosen = frame.where(self.where)
        moment = sql.coalesce("timestamp", "ingest_timestamp")
        for name, text in (("since", self.since), ("until", self.until)):
            if not text:
                continue
            (row,) = frame.sparkSession.sql("select try_to_timestamp(:t) as t", {"t": text}).collect()
            if row.t is None:
                raise AMQPSourceError(f"{name} is {text!r}; expected a time such as 2026-11-16 09:30:00")
            limit = sql.lit(row.t)
            # Directories of other days are not even opened.
            if name == "since":
                chosen = chosen.where((moment >= limit) & (sql.col("date") >= sql.to_date(limit)))
            else:
                chosen = chosen.where((moment < limit) & (sql.col("date") <= sql.to_date(limit)))
        if self.key:
            dotted = sql.concat(sql.lit("."), "routing_key")
            chosen = chosen.where(dotted.rlike(topic_regex(self.key)))
        return chosen


EVERYTHING = Choice()


def topic_regex(pattern: str) -> str:
    """A topic exchange's pattern, for keys with a dot before every word: * is one word, # any number."""
    words = {"*": r"\.[^.]*", "#": r"(\.[^.]*)*"}
    return "^" + "".join(words.get(word, r"\." + re.escape(word)) for word in pattern.split(".")) + "$"


def replay(
    spark: SparkSession,
    url: str,
    path: str,
    exchange: str,
    choice: Choice = EVERYTHING,
    rows_per_second: int = 0,
) -> Iterator[tuple[int, int]]:
    """Publish archived messages to an exchange again, in the order in which they came.

    Tells before the first part and after each how many have been published, and how many there are.
    """
    frame = choice.of(spark.read.option("mergeSchema", "true").parquet(filled(path))).drop(*PARTITIONS)
    order = Window.orderBy(sql.coalesce("timestamp", "ingest_timestamp"), "offset")
    numbered = frame.withColumn("number", sql.row_number().over(order))
    # Sorted once, and not again for every second of the replay.
    # Headers go with their types; a user id is that of the connection, which is another one now.
    unwanted = ("headers", "queue", "offset", "redelivered", "ingest_timestamp", "user_id")
    numbered = numbered.drop(*unwanted).persist(StorageLevel.DISK_ONLY)
    try:
        count = numbered.count()
        yield 0, count
        size = rows_per_second or max(count, 1)
        for first in range(0, count, size):
            begun = time.monotonic()
            part = numbered.where(f"number > {first} and number <= {first + size}").coalesce(1)
            rows = part.sortWithinPartitions("number").drop("number")
            rows.write.format("amqp").option("url", url).option("exchange", exchange).mode("append").save()
            if first + size < count:
                time.sleep(max(1.0 - (time.monotonic() - begun), 0.0))
            yield min(first + size, count), count
    finally:
        numbered.unpersist()
