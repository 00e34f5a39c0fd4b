"""The streaming reader of queues, at least once, on any AMQP broker.

Messages are taken in the process beside the driver, travel to the executors as Arrow, and are acknowledged
when Spark asks for the next batch, which it does after it has committed theirs (see lease_reader). When that
process dies the broker gives them to the next one: whatever a checkpoint says of numbers that are not
staged is an empty batch, and the messages come again after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_embermq.broker import PREFETCH, BrokerLink
from pyspark_embermq.decoding.decode_errors import refuser
from pyspark_embermq.decoding.rows import RowMaker
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.leases import check_kind
from pyspark_embermq.offsets import Offsets, in_order
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.source.pace import Pace
from pyspark_embermq.source.progress import Progress
from pyspark_embermq.source.staging import BYTES_MAX, BYTES_MIN, MESSAGES_MAX, MOMENT_S, Staging
from pyspark_embermq.source.subscription import Subscription


@dataclass
class ArrowPartition(InputPartition):
    """Rows, as Arrow writes them to a stream."""

    rows: bytes


@with_plain_errors
class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options, queues: Sequence[str]) -> None:
        self.schema = schema
        self.options = options
        self.link = BrokerLink(options)
        maker = RowMaker(schema, options, refuser(self.link))
        self.wanted = {*maker.wanted, "redelivered"}
        self.wanted |= {"body"} if options.max_bytes_per_trigger else set()
        self.subscription = Subscription(self.link, queues, streams=False)
        self.queues: dict[str, Staging] = {}
        self.find_queues()
        self.pace = Pace(options)
        self.progress = Progress(self.link)
        self.reached: Offsets = {}
        self.left: int | None = None  # rows that a trigger AvailableNow may still take

    def __getstate__(self) -> dict[str, Any]:
        # Executors read what travels in the partitions; what is staged stays here.
        return {"schema": self.schema, "options": self.options}

    # -- in the driver's process

    def find_queues(self, at_once: bool = False) -> None:
        """Queues that have come are read from now on, those that are gone no more."""
        current = self.subscription.current(at_once)
        share = max(BYTES_MAX // max(len(current), 1), BYTES_MIN)
        self.queues = {
            queue: self.queues.get(queue) or Staging(self.link, queue, self.wanted, share)
            for queue in current
        }

    def initialOffset(self) -> dict[str, Any]:
        return dict.fromkeys(self.queues, 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        check_kind(start, of_leases=False)
        self.find_queues()
        for queue, staging in self.queues.items():
            begin = int(start.get(queue, 0))
            staging.begin_at(begin)
            staging.settle(begin)
        rows = self.row_limit(start, limit)
        patience_s = self.options.idle_timeout_ms / 1000 if self.left else MOMENT_S
        size_left = self.options.max_bytes_per_trigger
        reached: Offsets = {queue: int(place) for queue, place in start.items()}
        for queue, staging in list(self.queues.items()):
            begin = int(start.get(queue, 0))
            fresh = staging.end - begin
            if fresh < rows and not self.take(staging, rows - fresh, patience_s):
                continue
            taken = min(max(staging.end - begin, 0), rows)
            if taken and self.options.max_bytes_per_trigger:
                taken, size = staging.fitting(begin, taken, size_left) if size_left > 0 else (0, 0)
                size_left -= size
            reached[queue] = begin + taken
            rows -= taken
            if self.left is not None:
                self.left -= taken
        if reached != start:
            self.pace.took(sum(reached.values()) - sum(int(place) for place in start.values()))
        self.reached = reached
        return in_order(reached)

    def row_limit(self, start: dict[str, Any], limit: ReadLimit) -> int:
        # Two batches are out at a time: one in the making, one that is not committed yet.
        rows = max(self.messages_max // 2, 1)
        if isinstance(limit, ReadMaxRows):
            rows = min(rows, limit.max_rows)
        rows = self.pace.row_limit(rows, wait=self.left is not None) or 0
        if self.left is not None:
            return min(rows, self.left)
        if self.pace.counts_waiting and not self.pace.is_due(self.waiting(start)):
            return 0
        return rows

    @property
    def messages_max(self) -> int:
        """How many may be out at a time."""
        return self.options.prefetch or (MESSAGES_MAX if self.link.is_embermq else PREFETCH)

    def waiting(self, start: dict[str, Any]) -> int:
        latest = self.latest()
        return sum(latest[queue] - int(start.get(queue, 0)) for queue in latest)

    def take(self, staging: Staging, count: int, patience_s: float) -> bool:
        """False: the queue was deleted, and is not of the subscription any more."""
        try:
            staging.take(count, patience_s)
            return True
        except AMQPSourceError:
            self.find_queues(at_once=True)
            if staging.queue in self.queues:
                raise
            return False

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Where Spark would be if it had everything: for the lag in its progress."""
        redelivered = {queue: staging.redelivered_count for queue, staging in self.queues.items()}
        return self.progress.report(self.reached, self.latest(), redelivered)

    def latest(self) -> Offsets:
        return {
            queue: staging.known_end + self.link.waiting_count(queue)
            for queue, staging in self.queues.items()
        }

    def prepareForTriggerAvailableNow(self) -> None:
        self.left = sum(self.link.waiting_count(queue) for queue in self.queues)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        check_kind(end, of_leases=False)
        maker = RowMaker(self.schema, self.options, refuser(self.link))
        found: list[InputPartition] = []
        for queue, staging in self.queues.items():
            arrivals = staging.between(int(start.get(queue, 0)), int(end.get(queue, 0)))
            batches = [maker.batch(arrived, queue) for arrived in arrivals if len(arrived)]
            rows = pa.Table.from_batches(batches, maker.schema)
            size = max(-(-rows.num_rows // self.options.min_partitions), 1)
            for index in range(0, rows.num_rows, size):
                found.append(ArrowPartition(packed(rows.slice(index, size))))
        return found

    def commit(self, end: dict[str, Any]) -> None:
        for queue, staging in self.queues.items():
            staging.settle(int(end.get(queue, 0)))

    def stop(self) -> None:
        self.link.close()

    # -- on an executor

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, ArrowPartition)
        with pa.ipc.open_stream(partition.rows) as rows:
            yield from rows


def packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
