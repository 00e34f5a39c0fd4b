"""A program to be killed: streaming queries on one Spark, begun again whenever one fails.

    python -m tests.spark.mortal_queries DIRECTORY URL SEED KIND,KIND,... [--to-the-end]

A stream, a super stream and a plain queue go into Parquet by Spark's own sink, two queues with leases by a
sink that fails now and then, before it has written or after; the stream into a queue, too, which deduplicates
where that is an option, and into an archive. The seed says how large batches are and how many parts they
have: other ones in every life.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_embermq.pipelines.archive import Archive
from pyspark_embermq.pipelines.archive import start as start_archive
from tests.spark.conftest import session

STREAM, LEASED, CLASSIC, SINK, SUPER, ARCHIVE = "stream", "leased", "classic", "sink", "super", "archive"
LEASED_TOO = "leased too"  # a second queue of the same query
KINDS = (STREAM, LEASED, CLASSIC, SINK, SUPER, ARCHIVE)
ON_RABBITMQ = (STREAM, CLASSIC, SINK)
ROWS_PER_BATCH_MAX = 40
SINK_FAILS = 0.1  # of the times that it is called, each before and after it has written
PAUSE_S = 0.2


class Life:
    """One run of the program."""

    def __init__(self, directory: Path, url: str, seed: int, to_the_end: bool) -> None:
        self.directory = directory
        self.url = url
        self.to_the_end = to_the_end
        self.chance = random.Random(seed)
        # A task may fail: its worker is killed, too.
        self.spark: SparkSession = session("local[2,4]", directory / "spark")

    def start(self, kind: str) -> StreamingQuery:
        place = self.directory / kind
        if kind == ARCHIVE:
            what = Archive(
                self.url,
                str(place / "rows"),
                str(place / "checkpoint"),
                queue=STREAM,
                trigger="0 seconds",
                max_records_per_trigger=self.batch_rows(),
            )
            return start_archive(self.spark, what, self.to_the_end)
        writer = self.rows(kind).writeStream.option("checkpointLocation", str(place / "checkpoint"))
        if kind == SINK:
            writer = writer.format("amqp").option("url", self.url).option("routingKey", "out")
            writer = writer.option("deduplicate", "true")
        elif kind == LEASED:
            writer = writer.foreachBatch(self.write_or_fail)
        else:
            writer = writer.format("parquet").option("path", str(place / "rows"))
        return (writer.trigger(availableNow=True) if self.to_the_end else writer).start()

    def rows(self, kind: str) -> DataFrame:
        reader = self.spark.readStream.format("amqp").option("url", self.url)
        reader = reader.option("minPartitions", self.chance.randint(1, 3))
        if kind == SUPER:
            reader = reader.option("superStream", SUPER)
        elif kind == LEASED:
            reader = reader.option("queues", f"{LEASED}, {LEASED_TOO}").option("delivery", "exactly-once")
        else:
            reader = reader.option("queue", STREAM if kind == SINK else kind)
        if not self.to_the_end:
            reader = reader.option("maxRecordsPerTrigger", self.batch_rows())
        return reader.schema("body binary").load()

    def batch_rows(self) -> int:
        return 1_000_000 if self.to_the_end else self.chance.randint(10, ROWS_PER_BATCH_MAX)

    def write_or_fail(self, batch: DataFrame, number: int) -> None:
        """The same files for the same batch, however often it comes."""
        fails = self.chance.random()
        if fails < SINK_FAILS and not self.to_the_end:
            raise RuntimeError("the sink fails before it has written")
        batch.write.mode("overwrite").parquet(str(self.directory / LEASED / "rows" / f"batch={number}"))
        if fails > 1 - SINK_FAILS and not self.to_the_end:
            raise RuntimeError("the sink fails after it has written")

    def run(self, kinds: list[str]) -> None:
        parent = os.getppid()
        running: dict[str, StreamingQuery] = {}
        while kinds and os.getppid() == parent:  # whoever kills us may have been killed
            for kind in list(kinds):
                query = running.get(kind)
                if query is not None and query.isActive:
                    continue
                if self.to_the_end and query is not None and query.exception() is None:
                    kinds.remove(kind)
                    continue
                if query is not None:
                    print(kind, "has failed:", str(query.exception())[:500], flush=True)
                try:
                    running[kind] = self.start(kind)
                except Exception as error:  # the broker is away: it is asked before a query begins
                    print(kind, "does not start:", str(error)[:500], flush=True)
                    time.sleep(PAUSE_S)
                    continue
                # One after the other: each starts a Python, and Spark gives it ten seconds to report.
                while is_starting(running[kind]) and os.getppid() == parent:
                    time.sleep(PAUSE_S)
            time.sleep(PAUSE_S)


def is_starting(query: StreamingQuery) -> bool:
    return query.isActive and query.lastProgress is None


if __name__ == "__main__":
    Life(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), "--to-the-end" in sys.argv).run(
        sys.argv[4].split(",")
    )
