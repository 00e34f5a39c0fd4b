"""Spark data sources to compare with: rows that are made in memory, and what is soon written with pika."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pika
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

SCHEMA = "body binary, offset bigint, routing_key string"
BATCH_ROWS = 10_000


class Nothing(DataSourceArrowWriter):
    """Takes the rows and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def made_rows(size: int, first: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Bodies and keys are made once and given again and again, offsets are counted on."""
    bodies = pa.array([b"x" * size] * BATCH_ROWS, pa.binary())
    keys = pa.array(["bench"] * BATCH_ROWS, pa.string())
    numbers = pa.array(range(BATCH_ROWS), pa.int64())
    for offset in range(first, stop, BATCH_ROWS):
        offsets = pc.add(numbers, offset)
        yield pa.RecordBatch.from_arrays([bodies, offsets, keys], names=["body", "offset", "routing_key"])


class MemoryReader(DataSourceReader):
    def __init__(self, options: Any) -> None:
        self.size, self.count = int(options["size"]), int(options["count"])
        self.parts = int(options["parts"])

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(index) for index in range(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        count = self.count // self.parts
        return made_rows(self.size, partition.value * count, (partition.value + 1) * count)


class MemoryStreamReader(DataSourceStreamReader):
    """The same as a streaming query, in batches of `batch` rows."""

    def __init__(self, options: Any) -> None:
        self.size, self.count, self.batch = (int(options[name]) for name in ("size", "count", "batch"))

    def initialOffset(self) -> dict[str, int]:
        return {"offset": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"offset": min(start["offset"] + self.batch, self.count)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["offset"], end["offset"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return made_rows(self.size, *partition.value)


class MemorySource(DataSource):
    """`spark.read.format("memory_rows")`: rows from nowhere, and to nowhere."""

    @classmethod
    def name(cls) -> str:
        return "memory_rows"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return MemoryReader(self.options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return MemoryStreamReader(self.options)

    def writer(self, schema: Any, overwrite: bool) -> Nothing:
        return Nothing()


class PikaStreamReader(SimpleDataSourceStreamReader):
    """What one writes in an afternoon: rows are taken with pika beside the driver, acked at the commit."""

    def __init__(self, options: Any) -> None:
        self.url, self.queue = options["url"], options["queue"]
        self.channel: Any = None

    def initialOffset(self) -> dict[str, int]:
        return {"tag": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        if self.channel is None:
            self.channel = pika.BlockingConnection(pika.URLParameters(self.url)).channel()
            self.channel.basic_qos(prefetch_count=2 * BATCH_ROWS)
        rows: list[tuple[Any, ...]] = []
        tag = start["tag"]
        for method, _, body in self.channel.consume(self.queue, inactivity_timeout=0.1):
            if method is None:
                break
            tag = method.delivery_tag
            rows.append((body, tag, method.routing_key))
            if len(rows) == BATCH_ROWS:
                break
        return iter(rows), {"tag": tag}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        return iter(())  # they are gone, or come again

    def commit(self, end: dict[str, int]) -> None:
        if end["tag"]:
            self.channel.basic_ack(end["tag"], multiple=True)


class PikaSource(DataSource):
    """`spark.readStream.format("pika_rows")`"""

    @classmethod
    def name(cls) -> str:
        return "pika_rows"

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return PikaStreamReader(self.options)
