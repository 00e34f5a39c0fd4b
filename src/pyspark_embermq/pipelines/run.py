"""Running a pipeline: the query from its specification, its progress as lines, its end as an exit code."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_embermq.errors import AMQPSourceError, Unreachable
from pyspark_embermq.pipelines import heartbeat as telling
from pyspark_embermq.pipelines.checkpoint_guard import changes, remember
from pyspark_embermq.pipelines.heartbeat import Tell
from pyspark_embermq.pipelines.python_pipeline import Start
from pyspark_embermq.pipelines.spark_errors import SPARK_ERRORS, told
from pyspark_embermq.pipelines.spec import NOT_TOLD, End, Ends, Pipeline
from pyspark_embermq.pipelines.state import ENDED, FAILED, RUNNING, WAITING, State, claimed
from pyspark_embermq.source.progress import queue_progress

LOOK_S = 1
MOMENT_S = 0.05
BATCH_S_MAX = 30.0  # a pipeline that is to stop waits no longer for its batch
Show = Callable[[str], None]
Check = Callable[[], None]  # raises Unreachable while there is no broker
# How many rows are done, and of how many: before the first part, and after each.
Parts = Iterable[tuple[int, int]]


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
    check: Check | None = None,
    ends: Ends = NOT_TOLD,
) -> State:
    """Run until there is nothing more (`once`), until SIGTERM or Ctrl-C, or until it fails.

    One that goes on for ever outlives an absence of its broker, if `check` tells whether that is back: the
    query is begun again, and its checkpoint says where.
    """
    with run_of(name, tell, ends) as state, Stopping() as stopping:
        while True:
            try:
                follow(begin(spark, once), state, stopping, show)
                return state
            except (*SPARK_ERRORS, Unreachable) as error:
                problem = told(error)
                if once or check is None or not isinstance(problem, Unreachable):
                    raise problem from None
                state.state, state.reason = WAITING, str(problem)
                state.save()
                show(f"{time.strftime('%H:%M:%S')} {problem}\nThe pipeline goes on when the broker is back")
            if not await_broker(check, stopping):
                return state
            state.state, state.reason = RUNNING, ""
            show(f"{time.strftime('%H:%M:%S')} the broker is back")


def follow(query: StreamingQuery, state: State, stopping: Stopping, show: Show) -> None:
    """Tell how a query comes on, until it ends or is to."""
    seen = -1
    while query.isActive and not stopping.asked:
        query.awaitTermination(LOOK_S)
        seen = report(query, state, seen, show)
    if query.isActive:
        show("stopping after this batch")
        let_batch_end(query)
        query.stop()
    report(query, state, seen, show)
    problem = query.exception()
    if problem is not None:
        raise problem


def await_broker(check: Check, stopping: Stopping) -> bool:
    """True when it is there again; False when the pipeline is to stop."""
    while not stopping.asked:
        try:
            check()
            return True
        except Unreachable:
            time.sleep(LOOK_S)
    return False


def run_parts(
    name: str,
    parts: Parts,
    show: Show = print,
    tell: Tell = lambda state: None,
    ends: Ends = NOT_TOLD,
) -> State:
    """Something that is done in parts, and may be stopped after each of them."""
    with run_of(name, tell, ends) as state, Stopping() as stopping:
        begun: float | None = None
        for done, total in parts:
            if begun is None:
                begun = time.monotonic()  # getting ready does not count
            else:
                state.batches += 1
            state.rows, state.lag = done, total - done
            state.rows_per_second = done / max(time.monotonic() - begun, MOMENT_S)
            state.save()
            show(
                f"{time.strftime('%H:%M:%S')} {done:,} of {total:,} rows, {state.rows_per_second:,.0f} rows/s"
            )
            if stopping.asked and done < total:
                show("stopped before the end")
                break
    return state


@contextmanager
def run_of(name: str, tell: Tell, ends: Ends) -> Iterator[State]:
    """A run under its name: its state is kept, and says at the end how that was."""
    state = State(name, os.getpid(), source=ends.source, sink=ends.sink)
    with claimed(name), telling.told(state, tell):
        state.save()
        try:
            yield state
            state.state, state.reason = ENDED, ""
        except (*SPARK_ERRORS, AMQPSourceError) as error:
            problem = told(error)
            state.state, state.reason = FAILED, str(problem)
            raise problem from None
        except BaseException as error:  # a mistake of ours
            state.state, state.reason = FAILED, f"{type(error).__name__}: {error}"
            raise
        finally:
            state.save()


class Stopping:
    """While it is entered, SIGTERM and Ctrl-C are requests: one during the start is answered after it."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, frame: object) -> None:
        self.asked = True

    def __enter__(self) -> Self:
        self.before = {number: signal.signal(number, self.ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


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
        state.queues = queue_progress(progress) or state.queues
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
    """Messages between what was read and what is there, where the source tells."""
    lag = 0
    known = False
    for source in progress["sources"]:
        end, latest = offsets_in(source.get("endOffset")), offsets_in(source.get("latestOffset"))
        if "lease" in end:
            latest = {"next": end["next"] + latest["waiting"]} if "waiting" in latest else {}
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
