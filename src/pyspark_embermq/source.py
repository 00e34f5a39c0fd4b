"""The data source `amqp`: what Spark asks for, by name."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_embermq.batch_reader import BatchReader
from pyspark_embermq.broker_link import BrokerLink
from pyspark_embermq.columns import SCHEMA, TEXT_SCHEMA
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options, options_from
from pyspark_embermq.rows import check_schema
from pyspark_embermq.stream_reader import StreamReader
from pyspark_embermq.writers import BatchWriter, StreamWriter


class AMQPDataSource(DataSource):
    """`spark.read.format("amqp")`, `.readStream`, `.write`, `.writeStream`; options are in docs/spark.md."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed: Options = options_from(options)

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> str:
        if self.parsed.format in ("json", "csv", "avro"):
            raise AMQPSourceError(
                f"option 'format' is {self.parsed.format!r}: give the fields of the body with .schema(...)"
            )
        return TEXT_SCHEMA if self.parsed.format == "text" else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema, self.parsed)
        return BatchReader(schema, self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_schema(schema, self.parsed)
        link = BrokerLink(self.parsed)
        try:
            queues = queues_of(self.parsed, link)
            if all(link.is_stream(queue) for queue in queues):
                return StreamReader(schema, self.parsed, queues)
            raise AMQPSourceError("reading classic queues as a stream is not there yet")
        finally:
            link.close()

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise AMQPSourceError("messages cannot be overwritten: use .mode('append')")
        return BatchWriter(schema, self.parsed)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(schema, self.parsed)


def queues_of(options: Options, link: BrokerLink) -> list[str]:
    """What is read: a queue, several (comma-separated), or the partitions of a super stream."""
    if options.super_stream:
        return link.partitions(options.super_stream)
    queues = [name.strip() for name in options.queue.split(",") if name.strip()]
    if not queues:
        raise AMQPSourceError("say what to read: option 'queue' (or 'superStream')")
    return queues
