"""The streaming reader of queues of EmberMQ, exactly once: a batch is a lease of each queue.

The checkpoint holds the leases:

    {"lease": "<query>", "next": 8, "counts": {"a": 500, "b": 0}, "partitions": 2}

is the lease `<query>-7` of 500 messages of queue a, read in two parts; queue b had none. A batch that is run
again reads the same leases in the same parts.

Spark's protocol, and what a call proves of the batch before it (MicroBatchExecution, Spark 4):

    latestOffset(start)     the batch that ended at `start` is in the commit log: its leases are settled here.
                            (`commit` comes later, with the next batch. Spark kills this process when the
                            query stops, so the leases of the last batch may be settled at the next start.)
    partitions(start, end)  the batch up to `end` is in the offset log: its leases must be there, or be taken
                            again exactly as they were, since the sink may have written some of it
    partitions(end, end)    the query has begun; nothing is read

A driver that is killed in latestOffset has leases that no log knows, perhaps of some queues only. Their name
follows from `start`, so the next driver finds them and takes those that are missing.

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
from pyspark_embermq.errors import AMQPSourceError, DataLossError, Missing
from pyspark_embermq.leases import SETTLED, LeasePart, Leases, Renewal, check_kind, parts_of, read
from pyspark_embermq.offsets import ABOUT, Offsets, limited
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.runtime.gc_pause import patient_collector
from pyspark_embermq.source.pace import Pace
from pyspark_embermq.source.progress import Progress
from pyspark_embermq.source.subscription import Subscription, names

log = logging.getLogger("pyspark_embermq")

MESSAGES_MAX = 300_000  # in one batch, unless maxRecordsPerTrigger says another number
# For the first leases of a query, which have to be written down by Spark before a restart can find them.
FIRST_TIMEOUT_MS = 600_000
OR_ELSE = " (unless the queue was deleted and made anew, or the checkpoint is an old copy)"


@dataclass
class LeasePartition(InputPartition):
    part: LeasePart


@with_plain_errors
class LeaseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, options: Options, queues: Sequence[str]) -> None:
        self.schema = schema
        self.options = options
        self.link = BrokerLink(options)
        self.subscription = Subscription(self.link, queues, streams=False)
        self.renewal = Renewal(options)
        self.settled = ""  # the name of the leases that were settled last
        self.settled_of: dict[str, str] = {}  # and of each queue
        self.absent: dict[str, str] = {}  # of queues: the lease that is known not to be there
        self.sure: set[tuple[str, str]] = set()  # leases that are known to be there
        self.pace = Pace(options)
        self.progress = Progress(self.link)
        self.taken: dict[str, int] = {}  # messages, by this process
        self.left: dict[str, int] | None = None  # messages that a trigger AvailableNow may still take

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def leases(self, queue: str) -> Leases:
        return Leases(self.link, queue)

    # -- in the driver's process

    def initialOffset(self) -> dict[str, Any]:
        return {"lease": f"{self.options.lease_name or 'spark'}-{uuid.uuid4().hex}", "next": 0, "counts": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self.check(start)
        self.settle(start)
        waiting = self.waiting()
        self.leave(start, waiting)
        if self.left is None and not self.pace.is_due(sum(waiting.values())):
            return start
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else MESSAGES_MAX
        rows = self.pace.row_limit(limit_rows, wait=self.left is not None)
        assert rows is not None
        if self.left is not None:
            waiting = {queue: min(count, self.left.get(queue, 0)) for queue, count in waiting.items()}
        shares = limited(dict.fromkeys(waiting, 0), waiting, rows)
        counts = {queue: self.take(queue, start, shares) for queue in shares}  # which are in order
        if not any(counts.values()):
            return start
        self.pace.took(sum(counts.values()))
        parts = self.options.min_partitions  # those of this batch, also when it is run again
        return {"lease": start["lease"], "next": start["next"] + 1, "counts": counts, "partitions": parts}

    def check(self, offset: dict[str, Any]) -> None:
        """Refuse the checkpoint of another query."""
        check_kind(offset, of_leases=True)
        known, current = set(self.counts(offset)), self.subscription.current()
        if known and not known & set(current) and not self.subscription.may_change:
            raise AMQPSourceError(
                f"the checkpoint is of {names(known)}, and not of {names(current)}: use another one"
            )

    def counts(self, offset: dict[str, Any]) -> Offsets:
        """How many messages of each queue the batch has that ends here."""
        if "counts" in offset:
            return dict(offset["counts"])
        # Of a version that knew one queue, whose name it did not write down.
        return dict.fromkeys(self.subscription.current()[:1], offset["count"])

    def waiting(self) -> dict[str, int]:
        """How many messages wait in each queue; one that was deleted a moment ago is not read any more."""
        found: dict[str, int] = {}
        for queue in self.subscription.current():
            try:
                found[queue] = self.link.waiting_count(queue)
            except Missing:
                if queue in self.subscription.current(at_once=True):
                    raise
        return found

    def leave(self, start: dict[str, Any], current: dict[str, int]) -> None:
        """Give back what a driver before this one has taken of queues that are not read any more."""
        name = lease_name(start)
        for queue in set(self.counts(start)) - set(current):
            try:
                if self.absent.get(queue) != name:
                    self.leases(queue).release(name)
            except Missing:
                pass  # the lease, or the queue
            self.absent[queue] = name

    def take(self, queue: str, start: dict[str, Any], shares: Offsets) -> int:
        """How many messages the lease has that is the queue's part of the next batch."""
        name, leases, rows = lease_name(start), self.leases(queue), shares[queue]
        # A driver that was killed may have taken this lease before Spark knew of it: not among those waiting.
        found = None if self.absent.get(queue) == name else leases.find(name)
        if found is None:
            self.absent[queue] = name
            if rows == 0:
                return 0
            timeout_ms = self.options.lease_timeout_ms
            if start["next"] == 0:
                timeout_ms = min(timeout_ms or FIRST_TIMEOUT_MS, FIRST_TIMEOUT_MS)
            bytes_max = -(-self.options.max_bytes_per_trigger * rows // sum(shares.values()))
            found = leases.take(name, rows, bytes_max, timeout_ms)
            if self.left is not None:
                self.left[queue] -= found.count
        if found.state == SETTLED:
            raise outdated(queue, name)
        if found.count:
            self.absent.pop(queue, None)
            self.renewal.add(queue, name)
            if start["next"]:
                self.sure.add((queue, name))
            self.taken[queue] = self.taken.get(queue, 0) + found.count
        return found.count

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        """No place, since the next lease is not taken yet: what waits for it, for the lag of a pipeline."""
        waiting = self.waiting()
        taken = {queue: self.taken.get(queue, 0) for queue in waiting}
        found = self.progress.report(taken, {queue: taken[queue] + count for queue, count in waiting.items()})
        return {ABOUT: found[ABOUT], "waiting": sum(waiting.values())}

    def prepareForTriggerAvailableNow(self) -> None:
        self.left = self.waiting()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self.check(end)
        if start == end:
            return []
        name, counts = last_lease(end), self.counts(end)
        total, parts = sum(counts.values()), int(end.get("partitions", self.options.min_partitions))
        found: list[InputPartition] = []
        for queue, count in counts.items():
            if count and self.secure(queue, name, count):
                pieces = -(-count * parts // total)  # its share, rounded up
                found += [LeasePartition(part) for part in parts_of(queue, name, count, pieces)]
        return found

    def secure(self, queue: str, name: str, count: int) -> bool:
        """Whether the lease of a batch is there, as it was when Spark wrote the batch down."""
        if (queue, name) in self.sure:
            return True
        timeout_ms, leases = self.options.lease_timeout_ms, self.leases(queue)
        try:
            found = leases.take_again(name, timeout_ms)
        except Missing:
            if not self.subscription.may_change:
                raise
            self.lose(f"queue '{queue}' was deleted before its batch of {count} messages was read")
            return False
        if found is not None and found.state == SETTLED:
            raise outdated(queue, name)
        if found is None or found.count != count:
            self.lose(
                f"lease '{name}' of queue '{queue}' was over before its batch of {count} messages was "
                f"committed: they went back to the queue, and not all of them are still there{OR_ELSE}. The "
                "batch cannot be run again as it was",
            )
            return False
        leases.renew(name, timeout_ms)
        self.renewal.add(queue, name)
        self.sure.add((queue, name))
        return True

    def lose(self, problem: str) -> None:
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
        if name == self.settled:
            return
        for queue, count in self.counts(end).items():
            if count:
                self.settle_lease(queue, name, count)
        self.settled = name

    def settle_lease(self, queue: str, name: str, count: int) -> None:
        try:
            if not self.leases(queue).settle(name, forget=self.settled_of.get(queue, "")):
                self.came_back(queue, name, count)
        except Missing:  # the queue is deleted, and its messages with it
            if not self.subscription.may_change:
                raise
        self.renewal.discard(queue, name)
        self.sure.discard((queue, name))
        self.settled_of[queue] = name

    def came_back(self, queue: str, name: str, count: int) -> None:
        problem = (
            f"lease '{name}' of queue '{queue}' was over before it was settled, though its batch of "
            f"{count} messages was committed: they went back to the queue, and not all of them are still "
            f"there{OR_ELSE}"
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
