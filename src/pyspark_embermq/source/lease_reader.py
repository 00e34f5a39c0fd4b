"""The streaming reader of queues of EmberMQ, exactly once: a batch is a lease.

The checkpoint holds the lease: {"lease": "<query>", "next": 8, "count": 500, "partitions": 2} is the lease
`<query>-7` of 500 messages, read in two parts. A batch that is run again reads the same lease in the same
parts.

Spark's protocol, and what a call proves of the batch before it (MicroBatchExecution, Spark 4):

    latestOffset(start)     the batch that ended at `start` is in the commit log: its lease is settled here.
                            (`commit` comes later, with the next batch. Spark kills this process when the
                            query stops, so the lease of the last batch may be settled at the next start.)
    partitions(start, end)  the batch up to `end` is in the offset log: its lease must be there, or be taken
                            again exactly as it was, since the sink may have written some of it
    partitions(end, end)    the query has begun; nothing is read

A lease is lost only by its time-out, if the user wants one and nothing renews it, or by an operator's hand.
"""

from __future__ import annotations

import logging
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

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.decoding.decode_errors import refuser
from pyspark_embermq.decoding.rows import RowMaker
from pyspark_embermq.errors import AMQPSourceError, DataLossError
from pyspark_embermq.leases import OPEN, SETTLED, LeasePart, Leases, Renewal, check_kind, parts_of, read
from pyspark_embermq.offsets import ABOUT
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.runtime.gc_pause import patient_collector
from pyspark_embermq.source.pace import Pace
from pyspark_embermq.source.progress import Progress

log = logging.getLogger("pyspark_embermq")

MESSAGES_MAX = 300_000  # in one lease, unless maxRecordsPerTrigger says another number
# For the first lease of a query, which has to be written down by Spark before a restart can find it.
FIRST_TIMEOUT_MS = 600_000


@dataclass
class LeasePartition(InputPartition):
    part: LeasePart


@with_plain_errors
class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options, queue: str) -> None:
        self.schema = schema
        self.options = options
        self.queue = queue
        self.link = BrokerLink(options)
        self.leases = Leases(self.link, queue)
        self.renewal = Renewal(options, queue)
        self.settled = ""  # the lease that was settled last
        self.sure = ""  # the lease that is known to be there
        self.pace = Pace(options)
        self.progress = Progress(self.link)
        self.taken = 0  # messages, by this process
        self.left: int | None = None  # messages that a trigger AvailableNow may still take

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options, "queue": self.queue}

    # -- in the driver's process

    def initialOffset(self) -> dict[str, Any]:
        return {"lease": f"{self.options.lease_name or 'spark'}-{uuid.uuid4().hex}", "next": 0, "count": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        check_kind(start, of_leases=True)
        self.settle(start)
        if self.left is None and self.pace.counts_waiting:
            if not self.pace.is_due(self.link.waiting_count(self.queue)):
                return start
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else MESSAGES_MAX
        rows = self.pace.row_limit(limit_rows, wait=self.left is not None)
        assert rows is not None
        count = self.take(start, rows)
        if count == 0:
            return start
        self.pace.took(count)
        self.taken += count
        parts = self.options.min_partitions  # those of this batch, also when it is run again
        return {"lease": start["lease"], "next": start["next"] + 1, "count": count, "partitions": parts}

    def take(self, start: dict[str, Any], rows: int) -> int:
        name = lease_name(start)
        # A driver that was killed may have taken this lease before Spark knew of it: not among those waiting.
        found = self.leases.find(name) if self.left is not None else None
        if found is None or found.state != OPEN:
            if self.left is not None:
                rows = min(rows, self.left)
            if rows == 0:
                return 0
            timeout_ms = self.options.lease_timeout_ms
            if start["next"] == 0:
                timeout_ms = min(timeout_ms or FIRST_TIMEOUT_MS, FIRST_TIMEOUT_MS)
            found = self.leases.take(name, rows, self.options.max_bytes_per_trigger, timeout_ms)
            if self.left is not None:
                self.left -= found.count
        if found.state == SETTLED:
            raise outdated(self.queue, name)
        if found.count:
            self.renewal.add(name)
            self.sure = name if start["next"] else ""
        return found.count

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        """No place, since the next lease is not taken yet: what waits for it, for the lag of a pipeline."""
        waiting = self.link.waiting_count(self.queue)
        found = self.progress.report({self.queue: self.taken}, {self.queue: self.taken + waiting})
        return {ABOUT: found[ABOUT], "waiting": waiting}

    def prepareForTriggerAvailableNow(self) -> None:
        self.left = self.link.waiting_count(self.queue)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        check_kind(end, of_leases=True)
        name = last_lease(end)
        if start == end or not end["count"] or not self.secure(name, end["count"]):
            return []
        found = parts_of(self.queue, name, end["count"], end.get("partitions", self.options.min_partitions))
        return [LeasePartition(part) for part in found]

    def secure(self, name: str, count: int) -> bool:
        """Whether the lease of a batch is there, as it was when Spark wrote the batch down."""
        if name == self.sure:
            return True
        timeout_ms = self.options.lease_timeout_ms
        found = self.leases.take_again(name, timeout_ms)
        if found is not None and found.state == SETTLED:
            raise outdated(self.queue, name)
        if found is None or found.count != count:
            self.lost(name, count)
            return False
        self.leases.renew(name, timeout_ms)
        self.renewal.add(name)
        self.sure = name
        return True

    def lost(self, name: str, count: int) -> None:
        problem = (
            f"lease '{name}' of queue '{self.queue}' was over before its batch of {count} messages was "
            "committed: they went back to the queue, and not all of them are still there, so the batch "
            "cannot be run again as it was"
        )
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{problem}. With failOnDataLoss=false the query goes on without this batch, and reads what "
                "is still in the queue; what the sink had written of the batch then comes twice"
            )
        log.warning("%s; the query goes on without it", problem)

    def commit(self, end: dict[str, Any]) -> None:
        self.settle(end)

    def settle(self, end: dict[str, Any]) -> None:
        """Of a batch that is in Spark's commit log."""
        name = last_lease(end)
        if not end["count"] or name == self.settled:
            return
        if not self.leases.settle(name, forget=last_lease({**end, "next": end["next"] - 1})):
            self.came_back(name, end["count"])
        self.renewal.discard(name)
        self.settled = name

    def came_back(self, name: str, count: int) -> None:
        problem = (
            f"lease '{name}' of queue '{self.queue}' was over before it was settled, though its batch of "
            f"{count} messages was committed: they went back to the queue, and not all of them are still "
            "there"
        )
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{problem}. Those that are would be read twice: take them out, or accept that with "
                "failOnDataLoss=false"
            )
        log.warning("%s; those that are will be read twice", problem)

    def stop(self) -> None:
        self.renewal.stop()
        self.link.close()

    # -- on an executor

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LeasePartition)
        return read_part(self.options, self.schema, partition.part)


def outdated(queue: str, lease: str) -> AMQPSourceError:
    return AMQPSourceError(
        f"lease '{lease}' of queue '{queue}' is settled already, so the checkpoint is older than what the "
        "query has done (a copy, perhaps). Its batch cannot be read again: use the newest checkpoint, or a "
        "new one"
    )


def lease_name(offset: dict[str, Any]) -> str:
    """The lease that comes next at this offset."""
    return f"{offset['lease']}-{offset['next']}"


def last_lease(offset: dict[str, Any]) -> str:
    """The lease of the batch that ends at this offset."""
    return f"{offset['lease']}-{offset['next'] - 1}"


def read_part(options: Options, schema: StructType, part: LeasePart) -> Iterator[Any]:
    with BrokerLink(options) as link, patient_collector():
        maker = RowMaker(schema, options, refuser(link))
        for arrived in read(link, part, maker.wanted):
            yield from maker.batches(arrived, part.queue)
