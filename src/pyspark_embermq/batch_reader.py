"""Reading once: a range of streams, or what waits in queues at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from embermq.client import ConsumerCancelled, Message
from pyspark_embermq.broker_link import BrokerLink
from pyspark_embermq.collecting import patient_collector
from pyspark_embermq.lease_reader import LeasePartition, read_part
from pyspark_embermq.leases import Leases, parts_of
from pyspark_embermq.offsets import parts, places_from
from pyspark_embermq.options import Options
from pyspark_embermq.refusing import refuser
from pyspark_embermq.rows import RowMaker
from pyspark_embermq.stream_reader import RangePartition, read_range, resolved

LEASE_MESSAGES_MAX = 1_000_000


@dataclass
class QueuePartition(InputPartition):
    """One classic queue and how many messages waited in it when the query was planned."""

    queue: str
    count: int


class BatchReader(DataSourceReader):
    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        with BrokerLink(self.options) as link:
            queues = link.queues()
            streams = [queue for queue in queues if link.is_stream(queue)]
            found: list[InputPartition] = []
            for queue in queues:
                if queue not in streams:
                    found += self.parts_of_queue(link, queue)
            starting = places_from("startingOffsets", self.options.starting_offsets, streams)
            ending = places_from("endingOffsets", self.options.ending_offsets, streams)
            start = {queue: resolved(link, queue, starting[queue]) for queue in streams}
            end = {queue: resolved(link, queue, ending[queue]) for queue in streams}
        found += [RangePartition(part) for part in parts(start, end, self.options.min_partitions)]
        return found

    def parts_of_queue(self, link: BrokerLink, queue: str) -> list[InputPartition]:
        waiting = link.waiting_count(queue)
        options = self.options
        if options.mode != "lease":
            return [QueuePartition(queue, waiting)]
        link.require_embermq("option 'mode' is 'lease': that needs leases")
        count = Leases(options, queue).take(options.lease_name, LEASE_MESSAGES_MAX)
        return [
            LeasePartition(part)
            for part in parts_of(queue, options.lease_name, count, options.min_partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, RangePartition):
            return read_range(self.options, self.schema, partition.part)
        if isinstance(partition, QueuePartition):
            return read_queue(self.options, self.schema, partition)
        if isinstance(partition, LeasePartition):
            return read_part(self.options, self.schema, partition.part)
        return iter(())  # what Spark makes of no partitions at all


def read_queue(options: Options, schema: StructType, partition: QueuePartition) -> Iterator[Any]:
    """What waits in a queue: looked at (browse), or taken and acknowledged at the end (drain)."""
    with BrokerLink(options) as link, patient_collector():
        maker = RowMaker(schema, options, refuser(link))
        messages = drained(link, partition) if options.mode == "drain" else browsed(link, partition)
        for batch in messages:
            yield maker.batch(batch, partition.queue)


def browsed(link: BrokerLink, partition: QueuePartition) -> Iterator[list[Message]]:
    """Without touching them on EmberMQ; elsewhere they are taken and given back, marked as redelivered."""
    arguments: dict[str, object] = {"x-browse": True} if link.is_embermq else {}
    # Elsewhere nothing is acknowledged, so nothing may limit what is out.
    prefetch = link.options.prefetch if link.is_embermq else None
    with link.channel(prefetch=prefetch, confirms=False) as channel:
        consumer = channel.consume(partition.queue, arguments=arguments)
        left = partition.count
        while link.is_embermq or left > 0:
            try:
                batch = consumer.fetch(link.options.batch_rows, link.options.idle_timeout_ms / 1000)
            except ConsumerCancelled:
                return
            if not batch:
                return
            if link.is_embermq:
                consumer.ack(batch)
            else:
                batch = batch[:left]
            left -= len(batch)
            yield batch


def drained(link: BrokerLink, partition: QueuePartition) -> Iterator[list[Message]]:
    """Acknowledged when all of them have been handed to Spark: a task that fails before takes nothing."""
    with link.channel(prefetch=None, confirms=False) as channel:
        consumer = channel.consume(partition.queue)
        left = partition.count
        last: Message | None = None
        while left > 0:
            batch = consumer.fetch(min(link.options.batch_rows, left), link.options.idle_timeout_ms / 1000)
            if not batch:
                break
            left -= len(batch)
            last = batch[-1]
            yield batch
        if last is not None:
            last.ack(multiple=True)
