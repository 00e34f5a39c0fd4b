"""The batch reader (`spark.read`): a range of streams, or what waits in queues at this moment."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from embermq.client import ColumnBatch, ColumnConsumer
from pyspark_embermq.broker import PREFETCH, BrokerLink, until_cancelled
from pyspark_embermq.decoding.decode_errors import refuser
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.decoding.rows import RowMaker
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.leases import Leases, parts_of, take_all
from pyspark_embermq.offsets import parts, places_from
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.runtime.gc_pause import patient_collector
from pyspark_embermq.source.lease_reader import LeasePartition, read_part
from pyspark_embermq.source.pushdown import NOTHING_PUSHED, pushed
from pyspark_embermq.source.stream_reader import RangePartition, read_range, resolved
from pyspark_embermq.source.subscription import check_kinds, subscribed

log = logging.getLogger("pyspark_embermq")


@dataclass
class QueuePartition(InputPartition):
    """One classic queue and how many messages waited in it when the query was planned."""

    queue: str
    count: int


@with_plain_errors
class BatchReader(DataSourceReader):
    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options
        self.pushed = NOTHING_PUSHED

    def partitions(self) -> Sequence[InputPartition]:
        with BrokerLink(self.options) as link:
            queues = subscribed(link)
            streams = [queue for queue, is_stream in queues.items() if is_stream]
            check_kinds(self.options, queues)
            found: list[InputPartition] = []
            for queue in queues:
                if queue not in streams and self.pushed.reads(queue):
                    found += self.parts_of_queue(link, queue)
            starting = places_from("startingOffsets", self.options.starting_offsets, streams)
            ending = places_from("endingOffsets", self.options.ending_offsets, streams)
            start, end = {}, {}
            for queue in filter(self.pushed.reads, streams):
                last = resolved(link, queue, ending[queue], "endingOffsets")
                first = min(resolved(link, queue, starting[queue]), last)  # none at all
                start[queue], end[queue] = self.pushed.narrowed(link, queue, first, last)
        found += [RangePartition(part) for part in parts(start, end, self.options.min_partitions)]
        return found

    def parts_of_queue(self, link: BrokerLink, queue: str) -> list[InputPartition]:
        waiting = link.waiting_count(queue)
        options = self.options
        check_mode(link, queue, waiting)
        if options.mode != "lease":
            return [QueuePartition(queue, waiting)]
        link.require_embermq("option 'mode' is 'lease': that needs leases")
        taken = take_all(Leases(link, queue), options.lease_name, options, waiting)
        return [
            LeasePartition(part)
            for name, count in taken
            for part in parts_of(queue, name, count, options.min_partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, RangePartition):
            return read_range(self.options, self.schema, partition.part, self.pushed)
        if isinstance(partition, QueuePartition):
            return read_queue(self.options, self.schema, partition)
        if isinstance(partition, LeasePartition):
            return read_part(self.options, self.schema, partition.part)
        return iter(())  # what Spark makes of no partitions at all


@with_plain_errors
class FilteringReader(BatchReader):
    """The batch reader where Spark pushes filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.pushed = pushed(filters, self.options.column_prefix)
        return filters  # Spark applies them to what is left


def check_mode(link: BrokerLink, queue: str, waiting: int) -> None:
    """Say what reading a queue in this way does to it, where that may not be meant."""
    if link.options.selector and link.options.mode != "drain":
        raise AMQPSourceError(
            f"option 'selector' is for messages that are taken: with mode=drain, not {link.options.mode}. "
            "Filter the rows instead"
        )
    if link.options.mode == "drain" and waiting:
        log.warning(
            "mode=drain takes all messages that wait in queue '%s' (%d at this moment) when the query runs, "
            "also if it shows only some of the rows (show, limit, head); mode=browse takes none",
            queue,
            waiting,
        )
    if link.options.mode == "browse" and not link.is_embermq and link.kind(queue) == "quorum":
        raise AMQPSourceError(
            f"'{queue}' is a quorum queue. The broker at {link.options.place} can show its messages only by "
            "delivering them and taking them back, which counts against the queue's delivery limit: after "
            "some looks they would be dropped. Read a stream that gets the same messages, or take them with "
            "mode=drain"
        )


def read_queue(options: Options, schema: StructType, partition: QueuePartition) -> Iterator[Any]:
    """What waits in a queue: looked at (browse), or taken and acknowledged at the end (drain)."""
    read = drained if options.mode == "drain" else browsed
    with BrokerLink(options) as link, patient_collector():
        maker = RowMaker(schema, options, refuser(link))
        for arrived in read(link, partition, maker.wanted):
            yield from maker.batches(arrived, partition.queue)


def browsed(link: BrokerLink, partition: QueuePartition, wanted: Collection[str]) -> Iterator[Arrivals]:
    """Without touching them on EmberMQ; elsewhere they are taken and given back, marked as redelivered."""
    options = link.options
    if not link.is_embermq:
        # Nothing is acknowledged, so nothing may limit what is out.
        with link.channel(prefetch=None, confirms=False) as channel:
            consumer = channel.consume_columns(partition.queue, wanted)
            for batch, count in up_to(consumer, partition.count, options):
                yield Arrivals(batch, 0, count)
        return
    prefetch = options.prefetch or PREFETCH
    rows = min(options.batch_rows, max(prefetch // 2, 1))
    with link.channel(prefetch=prefetch, confirms=False) as channel:
        consumer = channel.consume_columns(partition.queue, wanted, arguments={"x-browse": True})
        for arrived in until_cancelled(consumer, options, rows):
            consumer.ack(arrived.batch)
            yield arrived


def drained(link: BrokerLink, partition: QueuePartition, wanted: Collection[str]) -> Iterator[Arrivals]:
    """Acknowledged when all of them have been handed to Spark: a task that fails before takes nothing."""
    with link.channel(prefetch=None, confirms=False) as channel:
        consumer = channel.consume_columns(partition.queue, wanted, arguments=link.selecting(partition.queue))
        last: tuple[ColumnBatch, int] | None = None
        for last in up_to(consumer, partition.count, link.options):
            batch, count = last
            yield Arrivals(batch, 0, count)
        if last is not None:
            consumer.ack(*last)


def up_to(consumer: ColumnConsumer, left: int, options: Options) -> Iterator[tuple[ColumnBatch, int]]:
    """Batches of so many messages in all, and how many count of each; less when no more come."""
    while left > 0:
        batch = consumer.fetch(min(options.batch_rows, left), options.idle_timeout_ms / 1000)
        if batch is None:
            return
        count = min(batch.count, left)
        left -= count
        yield batch, count
