"""Running a pipeline: the query from its specification, its progress as lines, its end as an exit code."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.changes import changes, remember
from pyspark_embermq.pipelines.spec import End, Pipeline
from pyspark_embermq.pipelines.state import ENDED, FAILED, State

# What goes wrong in Java is mostly translated by PySpark, but not always.
SPARK_ERRORS = (PySparkException, Py4JError)
LOOK_S = 1
MOMENT_S = 0.05
BATCH_S_MAX = 30.0  # longer than that nobody waits for a batch when the pipeline is to stop
Show = Callable[[str], None]
# Starts the query of a pipeline: with the session, and whether to end when there is nothing more.
Start = Callable[[SparkSession, bool], StreamingQuery]
Tell = Callable[[State], None]  # to the broker, how the pipeline is


def source_of(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    reader = spark.readStream.format(pipeline.source.format).options(**pipeline.source.options)
    if pipeline.source.schema:
        reader = reader.schema(pipeline.source.schema)
    frame = reader.load()
    if pipeline.watermark is not None:
        frame = frame.withWatermark(*pipeline.watermark)
    return frame


def table_of(spark: SparkSession, table: End) -> DataFrame:
    """Something to join with, as it is at this moment."""
    reader = spark.read.format(table.format).options(**table.options)
    return (reader.schema(table.schema) if table.schema else reader).load()


def start(spark: SparkSession, pipeline: Pipeline, once: bool, show: Show = print) -> StreamingQuery:
    for change in changes(pipeline):
        show(change)
    source_of(spark, pipeline).createOrReplaceTempView("source")
    for name, table in pipeline.tables.items():
        table_of(spark, table).createOrReplaceTempView(name)
    writer = (
        spark.sql(pipeline.sql)
        .writeStream.queryName(pipeline.name)
        .outputMode(pipeline.output_mode)
        .format(pipeline.sink.format)
        .options(**pipeline.sink.options)
        .option("checkpointLocation", pipeline.checkpoint)
    )
    query = triggered(writer, pipeline.trigger, once).start()
    remember(pipeline)
    return query


def triggered(writer: DataStreamWriter, trigger: str, once: bool) -> DataStreamWriter:
    return writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)


def run(
    spark: SparkSession,
    name: str,
    begin: Start,
    once: bool,
    show: Show = print,
    tell: Tell = lambda state: None,
) -> State:
    """Run until there is nothing more (`once`), until SIGTERM or Ctrl-C, or until it fails."""
    state = State(name, os.getpid())
    state.save()
    try:
        watch(spark, state, begin, once, show, tell)
    finally:
        tell(state)
    return state


def watch(spark: SparkSession, state: State, begin: Start, once: bool, show: Show, tell: Tell) -> None:
    stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    # From here on: who asks it to stop while it starts is heard when it has started.
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        query = begin(spark, once)
        seen = -1
        while query.isActive and not stopping:
            query.awaitTermination(LOOK_S)
            seen = report(query, state, seen, show)
            tell(state)
        if query.isActive:
            show("stopping after this batch")
            let_batch_end(query)
            query.stop()
        report(query, state, seen, show)
        problem = query.exception()
        if problem is not None:
            raise failed(state, problem)
    except (*SPARK_ERRORS, AMQPSourceError) as error:
        raise failed(state, error) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    state.state = ENDED
    state.save()


def let_batch_end(query: StreamingQuery) -> None:
    """Spark stops in the middle of a batch, which is then run again: loses nothing, but may write twice."""
    deadline = time.monotonic() + BATCH_S_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(MOMENT_S)


def report(query: StreamingQuery, state: State, seen: int, show: Show) -> int:
    """A line for each batch that had rows; the number of the last one that was seen."""
    for progress in query.recentProgress:
        if progress["batchId"] <= seen:
            continue
        seen = progress["batchId"]
        state.batches += 1
        state.rows += progress["numInputRows"]
        state.rows_per_second = progress.get("processedRowsPerSecond") or 0.0
        lag = lag_in(progress)
        state.lag = state.lag if lag is None else lag  # a batch without rows may not tell
        if progress["numInputRows"]:
            waiting = "" if state.lag is None else f", lag {state.lag:,}"
            show(
                f"{time.strftime('%H:%M:%S')} batch {seen}: {progress['numInputRows']:,} rows, "
                f"{state.rows_per_second:,.0f} rows/s{waiting}"
            )
    state.save()
    return seen


def lag_in(progress: Any) -> int | None:
    """Messages between what was read and what is there, where the source has offsets."""
    lag = 0
    known = False
    for source in progress["sources"]:
        end, latest = offsets_in(source.get("endOffset")), offsets_in(source.get("latestOffset"))
        for queue, offset in latest.items():
            if isinstance(offset, int) and isinstance(end.get(queue), int):
                known = True
                lag += max(offset - end[queue], 0)
    return lag if known else None


def offsets_in(found: Any) -> dict[str, Any]:
    """Spark hands them on as text or as an object, as its version likes; other sources have their own."""
    try:
        offsets = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return {}
    return offsets if isinstance(offsets, dict) else {}


def failed(state: State, error: Exception) -> AMQPSourceError:
    state.state, state.reason = FAILED, sentence_of(error)
    state.save()
    return AMQPSourceError(state.reason)


def sentence_of(error: Exception) -> str:
    """The one line of a Spark exception that is ours, or else its first."""
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    lines = (text or "").splitlines()
    for line in lines:
        for kind in ("AMQPSourceError: ", "DataLossError: "):
            if kind in line:
                return line.split(kind, 1)[1]
    return lines[0] if lines else type(error).__name__
