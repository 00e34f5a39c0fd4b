"""Reading once: a range of streams, or what waits in a queue at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_embermq.broker_link import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.offsets import parts, places_from
from pyspark_embermq.options import Options
from pyspark_embermq.stream_reader import RangePartition, read_range, resolved


class BatchReader(DataSourceReader):
    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        from pyspark_embermq.source import queues_of

        link = BrokerLink(self.options)
        try:
            queues = queues_of(self.options, link)
            if not all(link.is_stream(queue) for queue in queues):
                raise AMQPSourceError("reading classic queues is not there yet")
            starting = places_from("startingOffsets", self.options.starting_offsets, queues)
            ending = places_from("endingOffsets", self.options.ending_offsets, queues)
            start = {queue: resolved(link, queue, starting[queue]) for queue in queues}
            end = {queue: resolved(link, queue, ending[queue]) for queue in queues}
        finally:
            link.close()
        return [RangePartition(part) for part in parts(start, end, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return iter(())  # what Spark makes of no partitions at all
        return read_range(self.options, self.schema, partition.part)
