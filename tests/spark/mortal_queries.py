"""A program to be killed: four streaming queries on one Spark, begun again whenever one fails.

    python -m tests.spark.mortal_queries DIRECTORY URL HTTP_URL [--to-the-end]

A stream, a queue with leases and a plain queue go into Parquet; the stream into a deduplicating queue, too.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.conftest import session

STREAM, LEASED, CLASSIC, SINK = "stream", "leased", "classic", "sink"
KINDS = (STREAM, LEASED, CLASSIC, SINK)
ROWS_PER_BATCH = 40
PAUSE_S = 0.3


def start(
    spark: SparkSession, kind: str, directory: Path, url: str, http_url: str, to_the_end: bool
) -> StreamingQuery:
    source = STREAM if kind == SINK else kind
    reader = spark.readStream.format("amqp").option("url", url).option("queue", source)
    if kind == LEASED:
        reader = reader.option("delivery", "exactly-once").option("httpUrl", http_url)
    if not to_the_end:
        reader = reader.option("maxRecordsPerTrigger", ROWS_PER_BATCH)
    rows = reader.option("minPartitions", 2).schema("body binary").load()
    if kind == SINK:
        writer = rows.writeStream.format("amqp").option("url", url).option("routingKey", "out")
        writer = writer.option("deduplicate", "true")
    else:
        writer = rows.writeStream.format("parquet").option("path", str(directory / kind / "rows"))
    writer = writer.option("checkpointLocation", str(directory / kind / "checkpoint"))
    return (writer.trigger(availableNow=True) if to_the_end else writer).start()


def run(directory: Path, url: str, http_url: str, to_the_end: bool) -> None:
    # A task may fail: its worker is killed, too.
    spark = session("local[2,4]", directory / "spark")
    parent = os.getppid()
    running: dict[str, StreamingQuery] = {}
    left = list(KINDS)
    while left and os.getppid() == parent:  # whoever kills us may have been killed
        for kind in list(left):
            query = running.get(kind)
            if query is not None and query.isActive:
                continue
            if to_the_end and query is not None and query.exception() is None:
                left.remove(kind)
                continue
            if query is not None:
                print(kind, "has failed:", str(query.exception())[:500], flush=True)
            running[kind] = start(spark, kind, directory, url, http_url, to_the_end)
            # One after the other: each starts a Python, and Spark gives it ten seconds to report.
            while running[kind].isActive and running[kind].lastProgress is None and os.getppid() == parent:
                time.sleep(PAUSE_S)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], "--to-the-end" in sys.argv)
