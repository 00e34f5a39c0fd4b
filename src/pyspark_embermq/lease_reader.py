"""Reading a classic queue of EmberMQ as a streaming query, exactly once: a batch is a lease.

The checkpoint holds the lease: {"lease": "<query>", "next": 8, "count": 500} is the lease `<query>-7` of 500
messages. A batch that is run again reads the same lease; it is settled when Spark has committed the batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_embermq.broker_link import BrokerLink
from pyspark_embermq.collecting import patient_collector
from pyspark_embermq.leases import LeasePart, Leases, parts_of, read
from pyspark_embermq.options import Options
from pyspark_embermq.plain_errors import with_plain_errors
from pyspark_embermq.refusing import refuser
from pyspark_embermq.rows import RowMaker

MESSAGES_MAX = 100_000  # in one lease, unless maxRecordsPerTrigger says another number


@dataclass
class LeasePartition(InputPartition):
    part: LeasePart


@with_plain_errors
class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options, queue: str) -> None:
        self.schema = schema
        self.options = options
        self.queue = queue
        self.leases = Leases(options, queue)
        self.unsettled = False  # a batch has been planned that is not committed
        self.left: int | None = None  # messages that a trigger AvailableNow may still take

    # -- in the driver's process

    def initialOffset(self) -> dict[str, Any]:
        return {"lease": f"spark-{uuid.uuid4().hex}", "next": 0, "count": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else MESSAGES_MAX
        count = self.take(lease_name(start), rows)
        if count == 0 and not self.unsettled:
            return start
        # With nothing new, one empty batch more: Spark commits a batch when it begins the next one.
        self.unsettled = count > 0
        return {"lease": start["lease"], "next": start["next"] + 1, "count": count}

    def take(self, name: str, rows: int) -> int:
        if self.left is None:
            return self.leases.take(name, rows)
        # A driver that was killed may have taken this lease before Spark knew of it: not among those waiting.
        count = self.leases.count_of(name)
        if count == 0 and self.left > 0:
            count = self.leases.take(name, min(rows, self.left))
            self.left -= count
        return count

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        """No place, since the next lease is not taken yet: what waits for it, for the lag of a pipeline."""
        with BrokerLink(self.options) as link:
            return {"waiting": link.waiting_count(self.queue)}

    def prepareForTriggerAvailableNow(self) -> None:
        with BrokerLink(self.options) as link:
            self.left = link.waiting_count(self.queue)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end["count"]:
            self.unsettled = True  # also after a restart
        name = lease_name({**end, "next": end["next"] - 1})
        found = parts_of(self.queue, name, end["count"], self.options.min_partitions)
        return [LeasePartition(part) for part in found]

    def commit(self, end: dict[str, Any]) -> None:
        if end["count"]:
            self.leases.settle(lease_name({**end, "next": end["next"] - 1}))

    # -- on an executor

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LeasePartition)
        return read_part(self.options, self.schema, partition.part)


def lease_name(offset: dict[str, Any]) -> str:
    """The lease that comes next at this offset."""
    return f"{offset['lease']}-{offset['next']}"


def read_part(options: Options, schema: StructType, part: LeasePart) -> Iterator[Any]:
    with BrokerLink(options) as link, patient_collector():
        maker = RowMaker(schema, options, refuser(link))
        for arrived in read(link, part, maker.wanted):
            yield from maker.batches(arrived, part.queue)
