"""Classic queues as DataFrames: looked at, drained, and followed at least once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from embermq.client import Channel, Properties
from embermq.testing import EmbeddedBroker
from pyspark_embermq import DataLossError, settle
from pyspark_embermq.lease_reader import LeaseReader
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines.running import lag_in
from tests.spark.test_reading_streams import Query, numbers, read


def test_browsing_takes_nothing(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 1000), "q")
    for _ in range(2):
        rows = read(spark, url, queue="q", batchRows=300).select("queue", "body", "redelivered").collect()
        assert [bytes(row.body) for row in rows] == numbers(0, 1000)
        assert {(row.queue, row.redelivered) for row in rows} == {("q", False)}
    assert channel.queue_declare("q", passive=True).message_count == 1000


def test_draining_takes_everything_that_was_there(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 500), "q")
    assert read(spark, url, queue="q", mode="drain").count() == 500
    assert channel.queue_declare("q", passive=True).message_count == 0
    assert read(spark, url, queue="q", mode="drain").count() == 0


def test_a_task_that_fails_takes_nothing(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch([*numbers(0, 5), b"x"], "q")
    reader = spark.read.format("amqp").option("url", url).option("queue", "q").option("mode", "drain")
    with pytest.raises(PySparkException, match="its body is not json"):
        reader.option("format", "json").schema("id int").load().collect()
    assert channel.queue_declare("q", passive=True).message_count == 6


def test_streams_and_queues_in_one_batch_read(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.publish_batch(numbers(0, 3), "q")
    channel.publish_batch(numbers(3, 5), "s")
    rows = read(spark, url, queue="q,s").select("queue", "offset").collect()
    assert sorted((row.queue, row.offset) for row in rows if row.queue == "s") == [("s", 0), ("s", 1)]
    assert [row.offset for row in rows if row.queue == "q"] == [None, None, None]


def test_a_query_acknowledges_what_it_has_done(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 100), "q")
    query = Query(spark, url, tmp_path, queue="q", maxRecordsPerTrigger=40, minPartitions=2)
    query.run()
    assert query.found() == numbers(0, 100)
    lags = [lag_in(progress) for progress in query.progress]
    assert lags[-1] == 0 and None not in lags
    broker.wait_until_empty("q", vhost)  # the last batch too
    channel.publish_batch(numbers(100, 110), "q")
    query.run()
    assert query.found() == numbers(0, 110)
    broker.wait_until_empty("q", vhost)


def test_bad_bodies_go_to_the_dead_letter_exchange(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q")
    channel.queue_declare("bad")
    channel.publish_batch([b'{"id": 1}', b"nonsense"], "q")
    reader = spark.read.format("amqp").option("url", url).option("queue", "q").option("format", "json")
    reader = reader.option("onDecodeError", "dead-letter").option("deadLetterExchange", "amq.direct")
    channel.queue_bind("bad", "amq.direct", "bad")
    frame = reader.option("deadLetterRoutingKey", "bad").schema("id int").load()
    assert [row.id for row in frame.collect()] == [1]
    (letter,) = broker.messages("bad", vhost)
    assert letter.body == b"nonsense" and "not JSON" in letter.headers["x-decode-error"]


def exactly_once(broker: EmbeddedBroker) -> dict[str, str]:
    return {"delivery": "exactly-once", "httpUrl": broker.http_url}


def test_a_query_with_leases_is_exactly_once(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    persistent = Properties(delivery_mode=2)
    channel.publish_batch(numbers(0, 100), "q", properties=persistent)
    options = {**exactly_once(broker), "maxRecordsPerTrigger": "40", "minPartitions": "2"}
    query = Query(spark, url, tmp_path, queue="q", **options)
    query.run()
    assert query.found() == numbers(0, 100)
    assert [progress["numInputRows"] for progress in query.progress] == [40, 40, 20]
    assert [lag_in(progress) for progress in query.progress] == [60, 20, 0]
    broker.wait_until_empty("q", vhost)
    channel.publish_batch(numbers(100, 110), "q", properties=persistent)
    query.run()
    assert query.found() == numbers(0, 110)
    broker.wait_until_empty("q", vhost)


def test_a_batch_that_is_run_again_reads_its_lease(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, url: str, tmp_path: Path
) -> None:
    """As after a crash between the result and the commit: the checkpoint is set back by one commit."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))
    query = Query(spark, url, tmp_path, queue="q", **exactly_once(broker))
    reader = LeaseReader(StructType.fromDDL("body binary"), Options(url=url, http_url=broker.http_url), "q")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(6))
    assert reader.latestOffset(start, ReadMaxRows(6)) == end  # asked again, the same
    for _ in range(2):
        (partition,) = reader.partitions(start, end)
        rows = [bytes(body.as_py()) for batch in reader.read(partition) for body in batch.column("body")]
        assert rows == numbers(0, 6)
    reader.commit(end)
    reader.commit(end)
    query.run()
    assert query.found() == numbers(6, 10)


@pytest.mark.parametrize("taken", [0, 4, 10])
def test_what_a_killed_driver_had_leased_is_available_now_as_well(
    channel: Channel, broker: EmbeddedBroker, url: str, taken: int
) -> None:
    """It had taken the next lease, and Spark had not written it down: it is not among those that wait."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))

    def new_reader() -> LeaseReader:
        schema = StructType().add("body", "binary")
        return LeaseReader(schema, Options(url=url, http_url=broker.http_url), "q")

    killed = new_reader()
    place = killed.initialOffset()
    if taken:
        killed.latestOffset(place, ReadMaxRows(taken))
    reader = new_reader()
    reader.prepareForTriggerAvailableNow()
    channel.publish_batch(numbers(10, 15), "q", properties=Properties(delivery_mode=2))  # too late
    counts = []
    for _ in range(5):
        end = reader.latestOffset(place, reader.getDefaultReadLimit())
        counts.append(end["count"])
        reader.partitions(place, end)
        reader.commit(end)
        place = end
    assert [count for count in counts if count] == [count for count in (taken, 10 - taken) if count]


def test_a_lease_in_a_batch_read_is_settled_by_its_name(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))
    options = {"mode": "lease", "leaseName": "run-7", "httpUrl": broker.http_url, "minPartitions": "3"}
    for _ in range(2):
        assert read(spark, url, queue="q", **options).count() == 10
    settle("q", "run-7", url=url, http_url=broker.http_url)
    broker.wait_until_empty("q", vhost)
    with pytest.raises(DataLossError, match="was over before its batch was committed"):
        settle("q", "no-such", url=url, http_url=broker.http_url)


def test_what_leases_need_is_told(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish(b"1", "q")
    with pytest.raises(PySparkException, match="option 'httpUrl' says where it is"):
        Query(spark, url, tmp_path, queue="q", delivery="exactly-once", httpUrl="http://localhost:1").run()
