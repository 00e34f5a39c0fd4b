"""`AMQPDataSource`, the data source `amqp`: makes the reader or writer that the options ask for."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.catalog import is_table, options_of, with_options
from pyspark_embermq.decoding.columns import SCHEMA, TEXT_SCHEMA
from pyspark_embermq.decoding.rows import check_schema
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats import cloudevents, protobuf
from pyspark_embermq.options import AS_THEY_ARE, Options, options_from
from pyspark_embermq.runtime.error_text import Refusal, with_plain_errors
from pyspark_embermq.sink.writers import BatchWriter, StreamWriter
from pyspark_embermq.source import pushdown
from pyspark_embermq.source.batch_reader import BatchReader, FilteringReader
from pyspark_embermq.source.lease_reader import LeaseReader
from pyspark_embermq.source.queue_reader import QueueReader
from pyspark_embermq.source.stream_reader import StreamReader
from pyspark_embermq.source.subscription import check_kinds, subscribed


@with_plain_errors
class AMQPDataSource(DataSource):
    """`spark.read.format("amqp")`, `.readStream`, `.write`, `.writeStream`; see docs/spark-options.md."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed: Options = options_from(options)

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> str:
        if self.parsed.format == "cloudevents":
            return cloudevents.SCHEMA
        if self.parsed.format not in AS_THEY_ARE:
            raise AMQPSourceError(
                f"option 'format' is {self.parsed.format!r}: give the fields of the body with .schema(...)"
            )
        schema = TEXT_SCHEMA if self.parsed.format == "text" else SCHEMA
        return with_options(schema, self.options) if is_table(self.options) else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self.reading_options(schema)
        if options.delivery != Options.delivery:
            raise AMQPSourceError("option 'delivery' is for streaming reads; for batch reads there is 'mode'")
        check_schema(schema, options)
        if options.push_filters and pushdown.is_enabled():
            return FilteringReader(schema, options)
        return BatchReader(schema, options)

    def reading_options(self, schema: StructType) -> Options:
        options = options_of(schema, self.options)
        if options.format != "protobuf":
            return options
        # Executors need not have the file.
        return replace(options, protobuf_descriptor=protobuf.embedded(options.protobuf_descriptor))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return self.stream_reader(schema)
        except AMQPSourceError as why:
            return Refusal(why)

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        options = self.reading_options(schema)
        if options.mode != Options.mode:
            raise AMQPSourceError("option 'mode' is for batch reads; for streaming reads there is 'delivery'")
        check_schema(schema, options)
        link = BrokerLink(options)
        try:
            found = subscribed(link)
            queues = list(found)
            streams = [queue for queue, is_stream in found.items() if is_stream]
            check_kinds(options, found)
            if len(streams) == len(queues):
                return StreamReader(schema, options, queues)
            if streams:
                raise AMQPSourceError(
                    f"'{streams[0]}' is a stream and others are not: read them in two queries"
                )
            if options.delivery == "at-least-once":
                return QueueReader(schema, options, queues)
            link.require_embermq("exactly once from a queue needs leases")
            if options.selector:
                raise AMQPSourceError(
                    "option 'selector' is for delivery = at-least-once: a lease takes messages in order. "
                    "Filter the rows instead"
                )
            return LeaseReader(schema, options, queues)
        finally:
            link.close()

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise AMQPSourceError("messages cannot be overwritten: use .mode('append')")
        return BatchWriter(schema, options_of(schema, self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(schema, options_of(schema, self.options))
