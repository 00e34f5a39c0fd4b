"""The batch writer and the streaming writer: rows are published, and a task succeeds when all are confirmed.

A task that Spark runs again publishes again. Into EmberMQ with deduplication every message carries an id
made of query, batch, partition and row, and what was published before is dropped there: exactly once, if
the plan gives the same rows in the same order every time. The ids of a batch are a series, which the broker
remembers as a whole, however many rows it has (docs/deduplication.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from embermq.client import AccessRefused, Confirmation, PublishFailed, ResourceLocked
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.errors import AMQPSourceError, Denied, Missing
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.runtime.gc_pause import patient_collector
from pyspark_embermq.sink.message_columns import DEDUPLICATION_HEADER
from pyspark_embermq.sink.row_writer import Sender, check_columns, column_name, prepared

# What a task is part of: the same when Spark runs it again.
RunOf = Callable[[TaskContext], str]
# Enough to keep the broker busy. What waits for its confirm is kept in memory, and memory that is taken again
# while it is still in the processor's cache, and the allocator has not given it back, costs less.
BATCHES_UNCONFIRMED_MAX = 4
BYTES_UNCONFIRMED_MAX = 16 * 1024 * 1024
NO_IDS = ""  # but those that the rows have
SERIES = "series:"
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


def check_target(schema: StructType, options: Options) -> None:
    """On the driver, before a task starts: is there an exchange, and can these rows be sent to it?"""
    check_columns(schema, options)
    if not options.exchange:
        return
    with BrokerLink(options) as link, link.channel(confirms=False, prefetch=None) as channel:
        channel.exchange_declare(options.exchange, passive=True)


def target_queue(schema: StructType, options: Options) -> str:
    """The queue that all rows go to; none: it takes an exchange, or a row, to say."""
    names = schema.fieldNames()
    goes_to_queue = not options.exchange and column_name("exchange", options) not in names
    return options.routing_key if goes_to_queue else ""


def check_broker(schema: StructType, options: Options) -> None:
    """Likewise: is there a broker that lets us in, and a queue, where all rows go to one?"""
    queue = target_queue(schema, options)
    with BrokerLink(options) as link, link.channel(confirms=False, prefetch=None) as channel:
        if queue and options.mandatory and options.on_return == "fail":
            try:
                channel.queue_declare(queue, passive=True)
            except (AccessRefused, ResourceLocked):
                pass  # it is there, and we may publish to it without being allowed to ask


def ids_max(schema: StructType, options: Options) -> int:
    """How many ids the target remembers, if it is a queue that tells; refuses one that remembers none.

    Only for ids that the rows have: those that we make are a series, which is remembered as a whole.
    """
    queue = target_queue(schema, options)
    if not options.deduplicate or not queue:
        return 0
    with BrokerLink(options) as link:
        if not link.is_embermq:
            return 0
        try:
            found = link.describe(queue).get("deduplication")
        except (Denied, Missing):
            return 0
    if found is None:
        raise AMQPSourceError(
            f"option 'deduplicate' is true, but queue '{queue}' does not deduplicate: declare it with "
            "x-deduplication, or give it a policy"
        )
    if found["header"] != DEDUPLICATION_HEADER:
        raise AMQPSourceError(
            f"option 'deduplicate' is true, but queue '{queue}' looks for ids in the header "
            f"'{found['header']}', and rows have them in '{DEDUPLICATION_HEADER}'"
        )
    return int(found["count"]) if column_name("deduplication_id", options) in schema.fieldNames() else 0


def id_prefix(run_of: RunOf) -> str:
    """What the deduplication ids of this task begin with."""
    task = TaskContext.get()
    assert task is not None
    run = run_of(task)
    return f"{SERIES}{run}/{task.partitionId()}" if run else NO_IDS


def publish(options: Options, batches: Iterator[Any], run_of: RunOf, ids_max: int) -> WriterCommitMessage:
    """All rows of one task, confirmed."""
    sender = Sender(options, id_prefix(run_of) if options.deduplicate else NO_IDS)
    with BrokerLink(options) as link, link.channel() as channel, patient_collector():
        waiting: deque[tuple[Confirmation, int]] = deque()
        size = 0  # of what waits
        for batch in batches:
            if ids_max and sender.row + batch.num_rows > ids_max:
                raise AMQPSourceError(
                    f"a task has more than {ids_max} rows with ids of their own, and the queue remembers no "
                    "more (x-deduplication-count): written again they would be there twice"
                )
            waiting.append((sender.publish(channel, batch), batch.nbytes))
            size += batch.nbytes
            while len(waiting) > BATCHES_UNCONFIRMED_MAX or (
                size > BYTES_UNCONFIRMED_MAX and len(waiting) > 1
            ):
                confirmation, confirmed = waiting.popleft()
                await_confirm(confirmation, options)
                size -= confirmed
        for confirmation, _ in waiting:
            await_confirm(confirmation, options)
    return WriterCommitMessage()


def await_confirm(confirmation: Confirmation, options: Options) -> None:
    try:
        confirmation.wait(options.confirm_timeout_ms / 1000)
    except PublishFailed as failure:
        if failure.nacked or options.on_return == "fail":
            why = ": a queue is full, or its x-deduplication-count is less than the batch takes"
            hint = why if failure.nacked and options.deduplicate else ""
            raise AMQPSourceError(f"{failure} (at {options.place}){hint}") from failure


@with_plain_errors
class BatchWriter(DataSourceArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        check_target(schema, options)
        id_column = column_name("deduplication_id", options)
        if options.deduplicate and not options.writer_id and id_column not in schema.fieldNames():
            raise AMQPSourceError(
                "option 'deduplicate' needs option 'writerId' in a batch write: a name for this run, "
                f"the same when it is run again; or a column {id_column!r}"
            )
        check_broker(schema, options)
        self.options = prepared(schema, options)
        self.ids_max = ids_max(schema, options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return publish(self.options, iterator, lambda task: self.options.writer_id, self.ids_max)


@with_plain_errors
class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: Options) -> None:
        check_target(schema, options)
        self.options = prepared(schema, options)
        self.ids_max = ids_max(schema, options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        def run_of(task: TaskContext) -> str:
            name = self.options.writer_id or task.getLocalProperty(QUERY_ID)
            return f"{name}/{task.getLocalProperty(BATCH_ID)}"

        return publish(self.options, iterator, run_of, self.ids_max)
