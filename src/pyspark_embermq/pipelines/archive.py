"""`archive`: everything that passes an exchange or queue, kept as Parquet; `replay`: from there back.

    PATH/date=2026-11-16/exchange=orders/hour=09/batch-3f0c6a1b2d4e-00000042-0.parquet
    PATH/_sources/archive.orders@<id of the stream>

A batch's files carry the id of their query, which Spark keeps in its checkpoint, and the number of the batch.
A batch that Spark runs again after a crash first removes what it left behind, so every message is in the
archive exactly once if the source is a stream; files of other queries are not touched. A stream belongs to
one query of an archive: another one, or one whose checkpoint was lost, would write its messages once more and
is refused.

Compaction turns the many small files of a past hour into one whose name says which batches it holds; what a
crash leaves of these is removed by the next run. The last batch of a query is left out, since it may be run
again. Files of different ages may have different columns: a reader merges these.

Spark's own file sink is not used: it takes the numbers of its batches from the directory, and would pass over
those of a second query, or of one with a new checkpoint, as if they were written.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines.run import triggered

PARTITIONS = ("date", "exchange", "hour")
STAGING = "_staging"
SOURCES = "_sources"
OWNER_DIGITS = 12  # of the id of a query, in the names of its files
BATCH_FILE = re.compile(r"batch-(?P<owner>[0-9a-f]{12})-(?P<number>\d{8})-\d+\.parquet")
COMPACT_FILE = re.compile(r"compact-(?P<owner>[0-9a-f]{12})-(?P<first>\d{8})-(?P<last>\d{8})\.parquet")
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


def default_checkpoint(path: str, queue: str) -> str:
    """One for each source, so that archiving something else in between does not disturb."""
    directory = Path(path) / "_checkpoint"
    if (directory / "metadata").exists():
        return str(directory)  # that of an archive from before there was one for each
    return str(directory / quote(queue, safe=""))


def start(spark: SparkSession, archive: Archive, once: bool) -> StreamingQuery:
    queue = source_queue(archive)
    frame = (
        spark.readStream.format("amqp")
        .option("url", archive.url)
        .option("queue", queue)
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

    def keep(batch: DataFrame, number: int, owner: str) -> None:
        nonlocal compacted_at
        add_batch(batch, owner, number, path)
        if time.monotonic() - compacted_at > COMPACTION_S:
            compacted_at = time.monotonic()
            compact(batch.sparkSession, path, owner)

    writer = rows.writeStream.queryName("archive").option("checkpointLocation", archive.checkpoint)
    return started(triggered(writer, archive.trigger, once), keep, path, stream_of(archive.url, queue))


def stream_of(url: str, queue: str) -> str:
    """Names a stream, and no other that may have its name one day; empty for a queue of another kind."""
    with BrokerLink(Options(url=url)) as link:
        if not link.is_stream(queue):
            return ""
        return f"{queue}@{link.describe(queue)['id']}" if link.is_embermq else queue


def started(
    writer: DataStreamWriter, keep: Callable[[DataFrame, int, str], None], path: Path, stream: str
) -> StreamingQuery:
    """A query that keeps its batches under its own id; what it reads is its own in this directory."""
    owner: Future[str] = Future()
    query = writer.foreachBatch(lambda batch, number: keep(batch, number, owner.result())).start()
    try:
        if stream:
            claim(path, stream, str(query.id))
        owner.set_result(owner_of(str(query.id)))
    except BaseException as problem:
        owner.set_exception(problem)
        query.stop()
        raise
    return query


def owner_of(query_id: str) -> str:
    return query_id.replace("-", "")[:OWNER_DIGITS]


def claim(path: Path, stream: str, query_id: str) -> None:
    """The messages of a stream are written here by this query, and by no other."""
    file = path / SOURCES / quote(stream, safe="@")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x") as new:
            new.write(query_id)
    except FileExistsError:
        if file.read_text() not in (query_id, ""):
            raise AMQPSourceError(
                f"stream '{stream.partition('@')[0]}' is archived in {path} with another checkpoint: with "
                "this one its messages would be there twice. Give the old checkpoint, or another path; or "
                f"remove {file} if what is archived is to be read once more"
            ) from None
        file.write_text(query_id)  # of a run that was killed before it had written it


def add_batch(
    rows: DataFrame, owner: str, number: int, path: Path, partitions: tuple[str, ...] = PARTITIONS
) -> None:
    """Write one batch; the same batch again replaces what it wrote before."""
    name = f"{owner}-{number:08d}"
    staging = path / STAGING / name
    for old in path.rglob(f"batch-{name}-*.parquet"):
        old.unlink()
    rows.write.mode("overwrite").partitionBy(*partitions).parquet(str(staging))
    counts: dict[Path, int] = {}
    for file in sorted(staging.rglob("part-*.parquet")):
        target = path / file.parent.relative_to(staging)
        target.mkdir(parents=True, exist_ok=True)
        index = counts[target] = counts.get(target, -1) + 1
        file.replace(target / f"batch-{name}-{index}.parquet")
    shutil.rmtree(staging)


def batch_files(hour: Path) -> dict[str, dict[Path, int]]:
    """By query, the files of batches that a directory holds, and their numbers."""
    found: dict[str, dict[Path, int]] = {}
    for file in sorted(hour.iterdir()):
        if match := BATCH_FILE.fullmatch(file.name):
            found.setdefault(match["owner"], {})[file] = int(match["number"])
    return found


def hours(path: Path) -> Iterator[Path]:
    """The directories that hold files."""
    yield from sorted(hour for hour in path.glob("date=*/exchange=*/hour=*") if hour.is_dir())


def clean_up(hour: Path) -> None:
    """Remove files whose batches are in a compacted one: a compaction was cut short."""
    files = batch_files(hour)
    for compacted in list(hour.iterdir()):
        if match := COMPACT_FILE.fullmatch(compacted.name):
            for file, number in files.get(match["owner"], {}).items():
                if int(match["first"]) <= number <= int(match["last"]):
                    file.unlink(missing_ok=True)


def compact(
    spark: SparkSession, path: Path, owner: str = "", files_min: int = 2, quiet_s: float = 3600.0
) -> int:
    """Make one file of the many in every hour that nothing was added to for a while; how many hours.

    Of one query, or of all.
    """
    last: dict[str, int] = {}  # the batch of each query that may be run again
    for hour in hours(path):
        for query, files in batch_files(hour).items():
            last[query] = max(last.get(query, 0), *files.values())
    done = 0
    for hour in hours(path):
        clean_up(hour)
        merged = 0
        for query, files in batch_files(hour).items():
            old = {file: number for file, number in files.items() if number < last[query]}
            quiet = time.time() - max((file.stat().st_mtime for file in files), default=0) >= quiet_s
            if owner in ("", query) and len(old) >= files_min and quiet:
                merge(spark, path, hour, query, old)
                merged += 1
        done += bool(merged)
    return done


def merge(spark: SparkSession, path: Path, hour: Path, owner: str, files: dict[Path, int]) -> None:
    first, last = min(files.values()), max(files.values())
    staging = path / STAGING / f"compact-{uuid.uuid4().hex}"
    rows = spark.read.option("mergeSchema", "true").parquet(*(str(file) for file in files))
    rows.coalesce(1).write.mode("overwrite").parquet(str(staging))
    (written,) = staging.glob("part-*.parquet")
    written.replace(hour / f"compact-{owner}-{first:08d}-{last:08d}.parquet")
    clean_up(hour)
    shutil.rmtree(staging)


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
