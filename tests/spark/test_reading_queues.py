"""Classic queues as DataFrames: looked at, drained, and followed at least once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from embermq.client import Channel
from embermq.testing import EmbeddedBroker
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
    with pytest.raises(PySparkException, match="a body is not json"):
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
