"""Streams as DataFrames: ranges, places, limits, checkpoints; every message exactly once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from embermq.client import Channel, Outgoing, Properties
from embermq.testing import EmbeddedBroker
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.offsets import places_in
from pyspark_embermq.options import Options
from pyspark_embermq.source.stream_reader import StreamReader
from tests.spark.conftest import declare_stream


def read(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    reader = spark.read.format("amqp").option("url", url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def bodies(frame: DataFrame) -> list[bytes]:
    return [bytes(row.body) for row in frame.orderBy("offset").select("body").collect()]


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_a_stream_is_a_table(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    properties = Properties(content_type="text/plain", headers={"n": 1, "t": "text"}, message_id="m-1")
    channel.publish_batch([Outgoing(b"one", properties=properties), b"two"], "s")
    first, second = read(spark, url, queue="s").orderBy("offset").collect()
    assert (first.queue, first.offset, bytes(first.body), first.routing_key) == ("s", 0, b"one", "s")
    assert first.headers == {"n": "1", "t": "text"} and first.headers_json == '{"n": 1, "t": "text"}'
    assert (first.content_type, first.message_id, first.reply_to) == ("text/plain", "m-1", None)
    assert (second.offset, second.headers, second.message_id) == (1, {}, None)


def test_when_the_broker_took_a_message(spark: SparkSession, channel: Channel, url: str) -> None:
    begin = time.time()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    headers = {"x": 1, "x-stream-timestamp": 5}  # as of another stream that it came from
    channel.publish_batch([Outgoing(b"1", properties=Properties(headers=headers))], "s")
    end = time.time()
    frame = read(spark, url, queue="s").selectExpr("unix_millis(ingest_timestamp) as ms", "headers")
    (row,) = frame.collect()
    assert begin - 10 <= row.ms / 1000 <= end + 10  # its clock stands still for a turn of its loop
    assert row.headers == {"x": "1"}
    assert frame.collect() == [row]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, 20)),
        ({"startingOffsets": "15"}, (15, 20)),
        ({"startingOffsets": "5", "endingOffsets": '{"s": 9}'}, (5, 9)),
        ({"startingOffsets": "latest"}, (20, 20)),
        ({"startingOffsets": "10", "endingOffsets": "5"}, (5, 5)),
        ({"startingOffsets": "timestamp:0"}, (0, 20)),
        ({"endingOffsets": "timestamp:0"}, (0, 0)),
        ({"minPartitions": 4}, (0, 20)),
    ],
)
def test_parts_of_a_stream(
    spark: SparkSession, channel: Channel, url: str, options: dict[str, Any], expected: tuple[int, int]
) -> None:
    declare_stream(channel, "s", numbers(0, 20))
    frame = read(spark, url, queue="s", **options)
    assert bodies(frame) == numbers(*expected)
    if "minPartitions" in options:
        assert frame.rdd.getNumPartitions() == 4


def test_only_the_columns_of_a_given_schema(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "s", [b'{"id": 1, "name": "a"}', b'{"id": 2}'])
    reader = spark.read.format("amqp").option("url", url).option("queue", "s")
    assert reader.schema("offset bigint").load().count() == 2
    decoded = reader.schema("id int, name string, _offset bigint").option("format", "json").load()
    assert [tuple(row) for row in decoded.orderBy("id").collect()] == [(1, "a", 0), (2, None, 1)]


def test_sql(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "s", numbers(0, 3))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW s USING amqp OPTIONS (url '{url}', queue 's')")
    assert spark.sql("SELECT sum(cast(cast(body AS string) AS int)) FROM s").collect()[0][0] == 3


def test_secrets_do_not_show(spark: SparkSession, channel: Channel, url: str, capsys: Any) -> None:
    declare_stream(channel, "s", numbers(0, 1))
    frame = read(spark, url, queue="s", user="guest", password="guest")
    frame.explain(True)
    assert "guest:guest" not in capsys.readouterr().out
    with pytest.raises(PySparkException) as failure:
        read(spark, url, queue="s", user="guest", password="s3cret").collect()
    assert "s3cret" not in str(failure.value) and "does not let us in" in str(failure.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "nobody"}, "no queue 'nobody'"),
        ({}, "say what to read: option 'queue'"),
        ({"queue": "s", "startingOffsets": "soon"}, "'startingOffsets' is 'soon'; expected earliest"),
        ({"queue": "s", "startingOffsets": "9"}, "'startingOffsets' is 9, but stream 's' ends at"),
        ({"queue": "s", "endingOffsets": "9"}, "'endingOffsets' is 9, but stream 's' ends at"),
        ({"queue": "s", "que": "t"}, "there is no option 'que'"),
        ({"queue": "s", "url": "amqp://localhost:1"}, "the broker at amqp://localhost:1 cannot be reached"),
    ],
)
def test_mistakes_are_sentences(
    spark: SparkSession, channel: Channel, url: str, options: dict[str, Any], sentence: str
) -> None:
    declare_stream(channel, "s", numbers(0, 1))
    with pytest.raises(PySparkException, match=sentence):
        read(spark, **{"url": url, **options}).collect()


class Query:
    """A streaming query into Parquet with a checkpoint, run as far as there is something."""

    def __init__(self, spark: SparkSession, url: str, directory: Path, **options: Any) -> None:
        self.spark, self.url, self.directory, self.options = spark, url, directory, options

    def run(self) -> None:
        query = self.start(availableNow=True)
        query.awaitTermination()
        self.progress = [progress for progress in query.recentProgress if progress["numInputRows"]]

    def start(self, **trigger: Any) -> StreamingQuery:
        reader = self.spark.readStream.format("amqp").option("url", self.url)
        for name, value in self.options.items():
            reader = reader.option(name, value)
        return (
            reader.load()
            .writeStream.format("parquet")
            .option("path", str(self.directory / "out"))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def found(self) -> list[bytes]:
        rows = self.spark.read.parquet(str(self.directory / "out")).select("body").collect()
        return sorted((bytes(row.body) for row in rows), key=int)


def test_a_query_goes_on_where_it_was(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", numbers(0, 10))
    query = Query(spark, url, tmp_path, queue="s", maxRecordsPerTrigger=4)
    query.run()
    assert query.found() == numbers(0, 10)
    assert [progress["numInputRows"] for progress in query.progress] == [4, 4, 2]
    channel.publish_batch(numbers(10, 13), "s")
    query.run()
    assert query.found() == numbers(0, 13)
    query.run()
    assert query.found() == numbers(0, 13)


def test_several_streams_and_a_limit(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    declare_stream(channel, "a", numbers(0, 30))
    declare_stream(channel, "b", numbers(30, 40))
    query = Query(spark, url, tmp_path, queue="a, b", maxRecordsPerTrigger=16, minPartitions=3)
    query.run()
    assert query.found() == numbers(0, 40)
    assert max(progress["numInputRows"] for progress in query.progress) == 16


def test_a_limit_in_bytes(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    declare_stream(channel, "s", [b"%0200d" % number for number in range(100)])
    query = Query(spark, url, tmp_path, queue="s", maxBytesPerTrigger=6000)
    query.run()
    assert len(query.found()) == 100
    assert len(query.progress) > 3


def test_lost_messages_are_told_or_passed_over(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", numbers(0, 10))
    Query(spark, url, tmp_path, queue="s").run()
    channel.queue_delete("s")
    declare_stream(channel, "s", numbers(10, 12))
    with pytest.raises(PySparkException, match="it was deleted and made anew"):
        Query(spark, url, tmp_path, queue="s").run()
    query = Query(spark, url, tmp_path, queue="s", failOnDataLoss="false")
    query.run()
    assert query.found() == numbers(0, 12)


def test_a_batch_of_a_stream_made_anew_that_ends_where_the_old_one_did(channel: Channel, url: str) -> None:
    """Its offset is another one: else the query would wait for ever."""
    declare_stream(channel, "s", numbers(0, 5))
    schema = StructType().add("body", "binary")
    reader = StreamReader(schema, Options(url=url, fail_on_data_loss=False), ["s"])
    place = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    channel.queue_delete("s")
    declare_stream(channel, "s", numbers(5, 10))
    end = reader.latestOffset(place, ReadMaxRows(5))
    (part,) = reader.partitions(place, end)
    rows = [body.as_py() for batch in reader.read(part) for body in batch.column("body")]
    assert rows == numbers(5, 10)
    assert reader.latestOffset(end, ReadMaxRows(5)) == end
    reader.stop()


def test_a_stream_made_anew_that_is_longer_than_the_old_one(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", numbers(0, 5))
    Query(spark, url, tmp_path, queue="s").run()
    channel.queue_delete("s")
    declare_stream(channel, "s", numbers(5, 30))
    with pytest.raises(PySparkException, match="not the one that the checkpoint is of: it was deleted and"):
        Query(spark, url, tmp_path, queue="s").run()
    query = Query(spark, url, tmp_path, queue="s", failOnDataLoss="false")
    query.run()
    assert query.found() == numbers(0, 30)


def test_a_stream_that_has_forgotten_its_beginning_is_added(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "a", numbers(0, 5))
    Query(spark, url, tmp_path, queue="a").run()
    limits = {"x-max-length-bytes": 5000, "x-stream-max-segment-size-bytes": 2000}
    channel.queue_declare("b", durable=True, arguments={"x-queue-type": "stream", **limits})
    for _ in range(20):
        channel.publish_batch([b"%0500d" % number for number in range(10, 20)], "b")
    with BrokerLink(Options(url=url)) as link:
        bounds = link.bounds("b")
    assert bounds.first > 0, "some are gone"
    query = Query(spark, url, tmp_path, queue="a,b")
    query.run()
    assert len(query.found()) == 5 + bounds.next - bounds.first
    # And one that is left out for a while goes on where it was.
    channel.publish_batch(numbers(5, 7), "a")
    Query(spark, url, tmp_path, queue="b").run()
    Query(spark, url, tmp_path, queue="a,b").run()
    assert len(query.found()) == 7 + bounds.next - bounds.first


def test_a_checkpoint_of_another_stream_is_refused(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        declare_stream(channel, name, numbers(0, 5))
    Query(spark, url, tmp_path, queue="a").run()
    with pytest.raises(PySparkException, match="the checkpoint is of 'a', and not of 'b'"):
        Query(spark, url, tmp_path, queue="b").run()


def test_a_batch_that_is_run_again_has_the_same_parts(channel: Channel, url: str) -> None:
    declare_stream(channel, "s", numbers(0, 100))
    fields = StructType()

    def reader(parts: int) -> StreamReader:
        return StreamReader(fields, Options(url=url, queue="s", min_partitions=parts), ["s"])

    before = reader(4)
    start = before.initialOffset()
    end = before.latestOffset(start, ReadAllAvailable())
    planned = before.partitions(start, end)
    again = reader(7)
    assert len(planned) == 4 and again.partitions(start, end) == planned
    assert again.latestOffset(end, ReadAllAvailable()) == end, "nothing has come: no batch"
    channel.publish_batch(numbers(0, 100), "s")
    later = again.latestOffset(end, ReadAllAvailable())
    assert len(again.partitions(end, later)) == 7
    old = {"s": 100}  # as older versions wrote them
    assert len(again.partitions({"s": 0}, old)) == 7
    assert places_in(again.latestOffset(old, ReadAllAvailable())) == {"s": 200}
    before.stop()
    again.stop()


def test_a_killed_broker_is_only_a_pause(spark: SparkSession, tmp_path: Path) -> None:
    from embermq.client import connect

    with EmbeddedBroker(persistent=True, process=True) as mortal:
        with connect(mortal.url) as connection, connection.channel() as channel:
            declare_stream(channel, "s", numbers(0, 50))
            query = Query(spark, mortal.url, tmp_path, queue="s", maxRecordsPerTrigger=20)
            query.run()
            mortal.kill()
            with pytest.raises(PySparkException, match="cannot be reached"):
                query.run()
            mortal.start()
            channel.publish_batch(numbers(50, 60), "s")
            query.run()
    assert query.found() == numbers(0, 60)
