"""Filters that are pushed into the source: what is read is less, and the rows are the same."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from embermq.client import Channel, Outgoing, Properties
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.options import Options
from pyspark_embermq.source.batch_reader import FilteringReader
from pyspark_embermq.source.pushdown import Pushed, pushed
from tests.spark.conftest import declare_stream

SETTING = "spark.sql.python.filterPushdown.enabled"
NOON = datetime.datetime(2026, 11, 18, 12, 0, 0, 500, tzinfo=datetime.UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, str(before))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("offset",), 5)], Pushed(5, 6)),
        ([In(("offset",), (7, 3, None))], Pushed(3, 8)),
        ([GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 9)], Pushed(5, 10)),
        ([GreaterThanOrEqual(("offset",), 5), GreaterThan(("offset",), 2)], Pushed(5)),
        ([LessThan(("ingest_timestamp",), NOON)], Pushed(end_ms=NOON_MS + 1)),
        ([GreaterThan(("ingest_timestamp",), NOON)], Pushed(first_ms=NOON_MS)),
        ([EqualTo(("queue",), "a"), In(("queue",), ("a", "b"))], Pushed(queues=frozenset(["a"]))),
        ([Not(EqualTo(("offset",), 5)), IsNotNull(("offset",)), EqualTo(("headers", "x"), 1)], Pushed()),
        ([EqualTo(("total",), 5)], Pushed()),
        ([IsNotNull(("ingest_timestamp",)), IsNotNull(("routing_key",)), IsNotNull(("queue",))], Pushed()),
    ],
)
def test_what_filters_leave(filters: list[Filter], expected: Pushed) -> None:
    assert pushed(filters, "") == expected


def test_columns_of_the_body_are_not_those_of_the_message() -> None:
    assert pushed([EqualTo(("offset",), 5)], "_") == Pushed()
    assert pushed([EqualTo(("_offset",), 5)], "_") == Pushed(5, 6)


def reader(url: str, queues: str, *filters: Filter) -> FilteringReader:
    made = FilteringReader(StructType().add("body", "binary"), Options(url=url, queues=queues))
    assert list(made.pushFilters(list(filters))) == list(filters)  # Spark looks at the rows once more
    return made


def ranges(made: FilteringReader) -> list[tuple[str, int, int]]:
    found: Any = [partition.part for partition in made.partitions()]
    return [(part.queue, part.start, part.end) for part in found]


def test_ranges_are_narrowed(channel: Channel, url: str) -> None:
    for name in ("a", "b"):
        declare_stream(channel, name, [b"%d" % number for number in range(10)])
    wanted = (GreaterThanOrEqual(("offset",), 4), LessThan(("offset",), 7))
    assert ranges(reader(url, "a,b", *wanted)) == [("a", 4, 7), ("b", 4, 7)]
    assert ranges(reader(url, "a,b", EqualTo(("queue",), "b"))) == [("b", 0, 10)]
    assert ranges(reader(url, "a", GreaterThan(("offset",), 70))) == []
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    assert ranges(reader(url, "a", GreaterThan(("ingest_timestamp",), later))) == []
    earlier = later - datetime.timedelta(days=2)
    assert ranges(reader(url, "a", LessThan(("ingest_timestamp",), earlier))) == []
    assert ranges(reader(url, "a", GreaterThan(("ingest_timestamp",), earlier))) == [("a", 0, 10)]


def test_batches_without_a_wanted_key_are_not_decoded(channel: Channel, url: str) -> None:
    channel.exchange_declare("topic", "topic")
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("s", "topic", "#")
    channel.publish_batch([Outgoing(b"1", key, "topic") for key in ("eu.1", "us.1", "us.2")])
    for filter_, count in (
        (EqualTo(("routing_key",), "us.1"), 3),  # all of the batch: Spark leaves out the others
        (StringStartsWith(("routing_key",), "asia"), 0),
        (EqualTo(("exchange",), "another"), 0),
    ):
        made = reader(url, "s", filter_)
        rows = [batch.num_rows for part in made.partitions() for batch in made.read(part)]
        assert sum(rows) == count


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_spark_gets_the_same_rows(pushing: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "a", [b"%d" % number for number in range(20)])
    declare_stream(channel, "b", [b"%d" % number for number in range(5)])
    reader = pushing.read.format("amqp").option("url", url).option("queues", "a,b")

    def rows(condition: str) -> list[tuple[Any, ...]]:
        frame = reader.option("pushFilters", "true").load()
        return rows_of(frame.where(condition).select("queue", "offset", "routing_key"))

    wanted = "offset >= 3 and offset < 5 and queue in ('a', 'c') and routing_key = 'a'"
    assert rows(wanted) == [("a", 3, "a"), ("a", 4, "a")]
    assert rows("ingest_timestamp > '2020-01-01' and offset = 2") == [("a", 2, "a"), ("b", 2, "b")]
    assert rows("offset < 0") == []


def test_a_frame_is_not_narrowed_by_an_earlier_query(
    pushing: SparkSession, channel: Channel, url: str
) -> None:
    """It would be, by Spark, if the source took its filters without being told to."""
    declare_stream(channel, "a", [b"%d" % number for number in range(20)])
    frame = pushing.read.format("amqp").option("url", url).option("queue", "a").load()
    assert frame.where("offset = 1").count() == 1
    assert (frame.count(), frame.limit(3).count()) == (20, 3)
    assert frame.where("offset = 1").union(frame.where("offset = 2")).count() == 2


def test_without_the_setting_nothing_is_pushed(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "a", [b"1", b"2"])
    frame = spark.read.format("amqp").option("url", url).option("queue", "a").option("pushFilters", "true")
    assert spark.conf.get(SETTING) == "false"
    assert frame.load().where("offset = 1").count() == 1


def test_filters_of_streams(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for number, city in enumerate(("oslo", "rome", None, "oslo")):
        headers: dict[str, object] = {"n": number}
        headers |= {"x-stream-filter-value": city} if city else {}
        channel.publish_batch([Outgoing(b"%d" % number, "s", properties=Properties(headers=headers))])

    def bodies(**options: object) -> list[bytes]:
        frame = spark.read.format("amqp").option("url", url).option("queue", "s").options(**options).load()
        return [bytes(row.body) for row in frame.orderBy("offset").collect()]

    assert bodies(streamFilter="oslo") == [b"0", b"3"]
    assert bodies(streamFilter='["oslo", "rome"]', minPartitions=2) == [b"0", b"1", b"3"]
    assert bodies(streamFilter="oslo", streamFilterUnfiltered=True) == [b"0", b"2", b"3"]
    assert bodies(streamFilterHeaders='{"n": 1}') == [b"1"]


def test_a_link_is_not_needed_for_offsets(url: str) -> None:
    with BrokerLink(Options(url=url)) as link:
        assert Pushed(3, 7).narrowed(link, "s", 0, 5) == (3, 5)
        assert Pushed(9).narrowed(link, "s", 0, 5) == (5, 5)
